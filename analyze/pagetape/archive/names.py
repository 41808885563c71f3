# SPDX-License-Identifier: Apache-2.0
"""The names of tapes in an archive, and of the machines that they come from.

    v1/date=2026-11-30/shard=5f/5f0c....tape

The date is the UTC date on which the recording began, `unknown` if the tape does not say. The
identity, 32 hex digits, is a hash of the facts that only one recording has, so that every copy of a
recording has the same name, whoever archives it and whatever the copy is called. The shard is the
first two digits of the identity.

A name is a function of the tape alone: no setting of the archiving machine changes it.
"""

import json
import re
from datetime import UTC, date, datetime
from hashlib import blake2b
from typing import Any, NamedTuple

from pagetape import machine_id
from pagetape.schemas.tape import Tape
from pagetape.tapes import origin

TAPES = "v1"  # first segment of the name of a tape
UNKNOWN = "unknown"  # date of a tape that does not say when it began

_NAME = re.compile(r"v1/date=(\d{4}-\d\d-\d\d|unknown)/shard=([0-9a-f]{2})/([0-9a-f]{32})\.tape")
_MACHINE = re.compile(r"[0-9a-f]{32}")

# Facts that distinguish recordings, and those of them that name a machine.
_NAMES = ("boot_id", "host", "instances")
_FACTS = ("recorded_at", "series")
_RUNS = ("replay", "validate")  # of tapes that were made from a recording
_HARDWARE = ("host", "kernel", "version", "arch", "cpus", "page_size", "nodes")
_OF_NAME = "recording_name"  # in the facts of a replay: the name of a file, which may change


class Named(NamedTuple):
    """The parts of a tape's name."""

    date: str  # YYYY-MM-DD or UNKNOWN
    shard: str  # 00 to ff
    identity: str


def _digest(known: Any) -> str:
    text = json.dumps(known, sort_keys=True)
    return blake2b(text.encode(), digest_size=16).hexdigest()


def machine(facts: dict[str, Any]) -> str:
    """The machine of a recording, 32 hex digits.

    The recorder stores it as the fact `machine`. Without that fact, each boot is a machine; without
    the boot, the name and the size of the machine have to do.
    """
    known = facts.get("machine")
    if isinstance(known, str) and _MACHINE.fullmatch(known):
        return known
    names = ("boot_id",) if facts.get("boot_id") else _HARDWARE
    return _digest([facts.get(name) for name in names])


def identity(tape: Tape) -> str:
    """The recording, 32 hex digits; raises TapeError for a damaged tape."""
    facts = tape.facts
    known: dict[str, Any] = {name: facts.get(name) for name in _FACTS}
    known["clock"] = tape.clock and tape.clock[0]
    for name in _RUNS:
        if run := facts.get(name):
            known[name] = {key: run[key] for key in run if key != _OF_NAME}
    named = facts.get("machine_key") != machine_id.RANDOM  # else two private copies differ in them
    if named:
        known |= {name: facts.get(name) for name in _NAMES} | {"machine": machine(facts)}
    if not named or not facts.get("boot_id"):  # the names prove too little
        known["recording"] = [origin.recording_id(tape), tape.clock]
    return _digest(known)


def _date(facts: dict[str, Any]) -> str:
    try:
        at = datetime.fromisoformat(str(facts.get("recorded_at")))
        return (at.astimezone(UTC) if at.tzinfo else at).date().isoformat()
    except (ValueError, OverflowError):
        return UNKNOWN


def object_name(tape: Tape) -> str:
    """The name of the tape's object; raises TapeError for a damaged tape."""
    name = identity(tape)
    return f"{TAPES}/date={_date(tape.facts)}/shard={name[:2]}/{name}.tape"


def date_of(name: str) -> str:
    """The date of a name that object_name() made."""
    return name.split("/")[1].removeprefix("date=")


def parse(name: str) -> Named | None:
    """The parts of a tape's name; None for any other name."""
    found = _NAME.fullmatch(name)
    if found is None or not found[3].startswith(found[2]):
        return None
    try:
        if found[1] != UNKNOWN:
            date.fromisoformat(found[1])
    except ValueError:
        return None
    return Named(found[1], found[2], found[3])


def prefix(day: str | None = None, shard: str | None = None) -> str:
    """The prefix of all tapes, of a date, or of a shard of a date, for Store.list()."""
    parts = [TAPES, day and f"date={day}", day and shard and f"shard={shard}"]
    return "/".join(filter(None, parts))

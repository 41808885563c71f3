# SPDX-License-Identifier: Apache-2.0
"""The recording that a tape comes from: which tapes belong together.

A file name proves nothing: a replay of another recording may have taken it. So a recording has an
id, a hash of its first events and of the machine's size. A copy, another name, moved pfns and a cut
at the end leave the id as it is. A replay carries the id and the name of its recording.

The replays of an older pagetape have no id. They still have copies of their recording's facts, and
the times of its first and last event.
"""

import errno
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from pagetape.schemas.tape import Tape, TapeError

SAME, OTHER, UNKNOWN = "same", "other", "unknown"

_ROWS = 64  # events in the hash: their times in ns are of one recording only
_COLUMNS = ("ts", "cpu", "kind", "pfn", "page_order", "migratetype", "gfp_flags")
_MACHINE: tuple[str, ...] = ("cpus", "page_size", "pageblock_order", "nr_orders")
_NAMES = ("boot_id", "host", "recorded_at", "source")  # facts of one recording, if not private
_NAMED = 3  # tapes that one line names
_RUNS = ("replay", "validate")  # facts of tapes that were made from a recording


@dataclass(frozen=True)
class Origin:
    """A recording as one of its tapes shows it."""

    id: str | None
    source_id: str | None  # what the replays of this tape call their recording
    name: str  # of the recording's tape when it was played; may be empty
    clock: tuple[int, int] | None  # ns, its first and last event
    facts: dict[str, Any]


def _events(tape: Tape) -> list[dict[str, Any]]:
    """The first rows of `event`, with pfns from the first one on: a private tape moves them all."""
    rows: list[dict[str, Any]] = []
    for batch in tape.batches("event", _COLUMNS):
        rows += batch.slice(0, _ROWS - len(rows)).to_pylist()
        if len(rows) >= _ROWS:
            break
    first = next((row["pfn"] for row in rows if row["pfn"] is not None), 0)
    return [row | {"pfn": row["pfn"] and row["pfn"] - first} for row in rows]


@lru_cache(maxsize=64)
def recording_id(tape: Tape) -> str | None:
    """The id of the tape's recording; None if the tape does not show it."""
    for name in _RUNS:
        if run := tape.facts.get(name):
            known: str | None = run.get("recording_id")
            return known
    names = _MACHINE
    try:
        rows = _events(tape)
    except TapeError:  # a damaged table: its reader reports it
        return None
    if len(rows) < _ROWS and tape.is_cut("event"):
        return None
    if not rows:
        names = (*_MACHINE, *_NAMES)
        if not any(map(tape.facts.get, _NAMES)):
            return None
    text = json.dumps([rows, {name: tape.facts.get(name) for name in names}], sort_keys=True)
    return blake2b(text.encode(), digest_size=8).hexdigest()


def as_text(path: Path | str) -> str:
    """A name of a file as text: bytes that are no UTF-8 as \\xNN, which facts and Arrow refuse."""
    return os.fsencode(path).decode(errors="backslashreplace")


def of(tape: Tape) -> Origin:
    """The recording of a tape, which may be the tape itself."""
    for name in _RUNS:
        if run := tape.facts.get(name):
            clock = tuple(run.get("clock") or ()) or None
            own, name = recording_id(tape), run.get("recording_name") or ""
            return Origin(own, _source_id(own, run), name, clock, tape.facts)
    own = recording_id(tape)
    return Origin(own, own, as_text(tape.path.name), tape.clock, tape.facts)


def _source_id(recording: str | None, run: dict[str, Any]) -> str | None:
    """The id that a replay gives to its own replays: their requests are not the recorded ones."""
    text = json.dumps([recording, run], sort_keys=True)
    return recording and blake2b(text.encode(), digest_size=8).hexdigest()


def made_from(tape: Tape) -> dict[str, Any]:
    """The facts of a replay of `tape` about the tape that it was made from."""
    return {"recording_id": of(tape).source_id, "recording_name": as_text(tape.path.name)}


def kin(one: Origin, other: Origin) -> str:
    """Whether two tapes come from the SAME recording, each from an OTHER, or UNKNOWN."""
    if one.id and other.id:
        ids = (one.id, other.id), (one.source_id, other.id), (one.id, other.source_id)
        return SAME if any(a == b for a, b in ids) else OTHER
    names = () if "private" in one.facts or "private" in other.facts else _NAMES
    known = [(one.facts.get(name), other.facts.get(name)) for name in ("kernel", *_MACHINE, *names)]
    if any(a != b for a, b in known if a is not None and b is not None):
        return OTHER
    if one.clock is None or other.clock is None:
        return UNKNOWN
    if one.clock[0] != other.clock[0]:
        return OTHER
    return SAME if one.clock == other.clock else UNKNOWN


def is_replay(tape: Tape) -> bool:
    return any(name in tape.facts for name in _RUNS)


def _whose(tape: Tape) -> str:
    """What a tape is a replay of, in words."""
    found = of(tape)
    return found.name or "another recording"


def _refusal(base: Tape, other: Tape) -> str:
    """Why two tapes cannot be compared, naming both."""
    if not is_replay(other):
        return f"{other.path}: is not the recording of {base.path}, a replay of {_whose(base)}"
    its, name = _whose(other), of(base).name or "another recording"
    if its == name:
        ids = " and ".join(str(of(tape).id or "unknown") for tape in (other, base))
        return (
            f"{other.path}: is a replay of another recording than {base.path}; both recordings are"
            f" called {name} (their ids: {ids})"
        )
    mine = f"{base.path}" if not is_replay(base) else f"{name} as {base.path} is"
    return f"{other.path}: is a replay of {its}, not of {mine}: compare it with its own recording"


def check_together(tapes: Sequence[Tape]) -> None:
    """Raise TapeError if the first tape is no base for another: one of them is a replay of another
    recording. Two recordings are no error: see notes()."""
    base = tapes[0]
    for other in tapes[1:]:
        if (is_replay(base) or is_replay(other)) and kin(of(base), of(other)) == OTHER:
            raise TapeError(errno.EINVAL, _refusal(base, other))


def note(base: Tape, other: Tape, name: str) -> str | None:
    """A line about a tape beside the first one, `name`, if they are not surely of one recording."""
    one, its = of(base), of(other)
    found = kin(one, its)
    if not is_replay(base) and not is_replay(other):
        if found == SAME:
            return None
        return (
            f"another recording than {name}: the difference is of two loads, not of two sets of"
            " rules; it has no interval and no verdict"
        )
    if found == UNKNOWN:
        return (
            f"may come from another recording than {name}: an older pagetape made it, and its facts"
            " do not show it"
        )
    if one.clock and its.clock and one.clock != its.clock:
        lengths = " and ".join(
            f"{(end - begin) / 1e9:.3f} s" for begin, end in (its.clock, one.clock)
        )
        return f"not of the same part of the recording as {name}: {lengths} long"
    return None


def notes(tapes: Sequence[Tape], labels: Sequence[str]) -> dict[str, str]:
    """note() of each tape but the first, by label."""
    found = {
        label: note(tapes[0], tape, labels[0])
        for tape, label in zip(tapes[1:], labels[1:], strict=True)
    }
    return {label: line for label, line in found.items() if line}


def lines(tapes: Sequence[Tape], labels: Sequence[str]) -> list[str]:
    """notes() as lines; tapes with the same note share one."""
    alike: dict[str, list[str]] = {}
    for label, words in notes(tapes, labels).items():
        alike.setdefault(words, []).append(label)
    return [
        f"{', '.join(same) if len(same) <= _NAMED else f'{len(same)} tapes'}: {words}"
        for words, same in alike.items()
    ]


def replaced(out: Path, source: Tape) -> str | None:
    """A line about a tape at `out` that a replay of `source` is going to replace; None if there is
    no readable one, or if it is of the same recording too."""
    if not out.exists():
        return None
    with suppress(TapeError):
        old = Tape(out)
        if not is_replay(old):
            return f"{out}: replaces a recording"
        if kin(of(old), of(source)) != SAME:
            return f"{out}: replaces a replay of {_whose(old)}"
    return None

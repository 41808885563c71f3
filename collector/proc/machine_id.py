# SPDX-License-Identifier: Apache-2.0
"""The fact `machine`: which machine a tape is of, without its machine-id.

machine_key   `machine` is a hash of the machine-id (/etc/machine-id) ...
machine-id    ... without a key: the machine-id has 128 random bits, so nobody can guess it
fleet         ... with the key of a fleet: only its owner can tell whose tape it is
random        ... with a key that nobody keeps, one for each private recording: see private.py
"""

import re
from _blake2 import blake2b  # hashlib would load OpenSSL into the recorder
from typing import Any

PLAIN, FLEET, RANDOM = "machine-id", "fleet", "random"

_ID = re.compile(r"[0-9a-f]{32}")

_fleet: bytes | None = None


def use_fleet_key(key: bytes | None) -> None:
    """Hash with this key from now on, or without one."""
    global _fleet
    _fleet = key


def fleet_key() -> bytes | None:
    return _fleet


def keyed(key: bytes, text: str) -> str:
    """A keyed hash, 32 hex digits."""
    short = key if len(key) <= blake2b.MAX_KEY_SIZE else blake2b(key).digest()
    return blake2b(text.encode(), key=short, digest_size=16).hexdigest()


def facts(machine_id: str | None) -> dict[str, Any]:
    """The facts about the machine of a machine-id; none without one."""
    if machine_id is None or not _ID.fullmatch(machine_id.strip()):
        return {}
    plain = keyed(machine_id.strip().encode(), "pagetape")
    if _fleet is None:
        return {"machine": plain, "machine_key": PLAIN}
    return {"machine": keyed(_fleet, plain), "machine_key": FLEET}

# SPDX-License-Identifier: Apache-2.0
"""Small archives for the tests: copies of a tape as the recordings of other machines."""

from hashlib import blake2b
from pathlib import Path
from typing import Any

import shipping

from pagetape.archive import names
from pagetape.archive.store import Put, Store, open_store
from pagetape.indexing.compact import Compactor, dates
from pagetape.schemas.tape import Tape


def machine(name: str) -> str:
    """The machine of a host of that name."""
    return blake2b(name.encode(), digest_size=16).hexdigest()


def copied(tape: Path, path: Path, host: str, day: int = 1, **facts: Any) -> Path:
    """The tape as a recording of another machine, in one file, of that day of November 2026."""
    about = {
        "machine": machine(host),
        "host": host,
        "boot_id": f"boot of {host}",
        "recorded_at": f"2026-11-{day:02}T12:00:00+00:00",
    }
    return shipping.copied(Tape(tape), path, **about | facts)


def archived(root: Path, *tapes: Path, compact: bool = True) -> Store:
    """An archive of tapes in one file each, with its index."""
    store = open_store(root, create=True)
    for tape in tapes:
        assert store.put_new(names.object_name(Tape(tape)), tape) == Put.MADE
    if compact:
        for day in dates(store):
            Compactor(store).run(day)
    return store


def fleet(root: Path, tape: Path, hosts: int, days: int = 1, **facts: Any) -> Store:
    """An archive of copies of a tape: `hosts` machines, one tape a day each."""
    made = root.with_suffix(".tapes")
    made.mkdir()
    tapes = [
        copied(tape, made / f"{host}-{day}.tape", f"host{host}", day, **facts)
        for host in range(hosts)
        for day in range(1, days + 1)
    ]
    return archived(root, *tapes)

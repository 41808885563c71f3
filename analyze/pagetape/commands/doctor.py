# SPDX-License-Identifier: Apache-2.0
"""pagetape doctor: what this machine can record."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

import click

from pagetape import answer, options
from pagetape.exact import ExactSnapshots
from pagetape.schemas import TABLES, VERSION, Table

TRACEFS = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))


@dataclass(frozen=True)
class Check:
    """One thing looked at. `ok` None is a fact, neither good nor bad."""

    name: str
    ok: bool | None
    found: str
    needed: bool = False  # `pagetape record` cannot do without


def _tracefs() -> Path | None:
    return next((path for path in TRACEFS if os.access(path / "events", os.R_OK)), None)


def _root() -> Check:
    root = os.geteuid() == 0
    return Check("root", root, "yes" if root else "no: run as root, or get access to tracefs")


def _access() -> Check:
    path = _tracefs()
    if path is None:
        mounted = next((p for p in TRACEFS if p.is_dir()), None)
        why = (
            "no access" if mounted else "not mounted: mount -t tracefs tracefs /sys/kernel/tracing"
        )
        return Check("tracefs", False, why, needed=True)
    if not os.access(path / "instances", os.W_OK):
        return Check("tracefs", False, f"{path}: cannot make an instance", needed=True)
    return Check("tracefs", True, str(path), needed=True)


def _events(table: Table) -> Check:
    root = _tracefs()
    if root is None:
        return Check(f"{table.name} events", False, "unknown without tracefs")
    missing = [
        kind.name
        for kind in table.kinds
        if not any((root / "events" / t.replace(":", "/")).is_dir() for t in kind.tracepoints)
    ]
    have = len(table.kinds) - len(missing)
    found = f"{have} of {len(table.kinds)}" + (f", not {', '.join(missing)}" if missing else "")
    page = table.name == "event"
    return Check(f"{table.name} events", not missing if page else have > 0, found, needed=page)


def _sub_buffer() -> Check:
    root = _tracefs()
    if root is None:
        return Check("sub-buffer size", None, "unknown without tracefs")
    path = root / "buffer_subbuf_size_kb"
    if not path.exists():
        return Check("sub-buffer size", None, "one page (fixed before Linux 6.8)")
    return Check("sub-buffer size", None, f"{path.read_text().strip()} kB, can be set")


def _readable(name: str, path: str, why: str) -> Check:
    ok = os.access(path, os.R_OK)
    return Check(name, ok, path if ok else f"{path}: cannot be read; {why}")


def _exact_snapshot() -> Check:
    """Loads the programs, and unloads them."""
    with contextlib.closing(ExactSnapshots(max_ms=20)) as snapshots:
        why = snapshots.refused
    return Check("exact snapshot", why is None, "with BPF" if why is None else why)


def _versions() -> Check:
    parts = [f"{name} {version(name)}" for name in ("pagetape", "pyarrow", "duckdb")]
    return Check("versions", None, ", ".join([*parts, f"tape schema {VERSION}"]))


CHECKS: tuple[Callable[[], Check], ...] = (
    lambda: Check("kernel", None, platform.release()),
    _root,
    _access,
    *(partial(_events, table) for table in TABLES.values() if table.kinds),
    _sub_buffer,
    lambda: _readable("kpageflags", "/proc/kpageflags", "free blocks at the start stay unknown"),
    lambda: _readable("pagetypeinfo", "/proc/pagetypeinfo", "migratetypes in free lists unknown"),
    _exact_snapshot,
    _versions,
)


@click.command("doctor")
@options.json
def command(as_json: bool) -> None:
    """What this machine can record, and what is missing for more.

    Looks, and tries what cannot be seen; changes nothing. Recordings that pagetape
    imports need none of it.

    \b
    Example:
      pagetape doctor
    """
    checks = [check() for check in CHECKS]
    can_record = all(check.ok for check in checks if check.needed)
    if as_json:
        answer.emit({"can_record": can_record, "checks": [vars(check) for check in checks]})
        return
    mark = {True: "ok", False: "missing", None: ""}
    click.echo(
        answer.table(("check", "", "found"), [(c.name, mark[c.ok], c.found) for c in checks])
    )
    click.echo(f"\npagetape record {'works' if can_record else 'does not work'} here")

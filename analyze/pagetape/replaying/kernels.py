# SPDX-License-Identifier: Apache-2.0
"""Under which kernel's rules a tape is played: which row of the feature matrix.

`--kernel auto` takes the row of the tape's release, if what was recorded agrees with it. A
release says less than it seems: stable trees received rewrites of the allocator (6.12.19
and 6.12.117 differ as 6.8 and 6.15 do), distributions carry patches, and a restored
trace.dat tells none. So the tape's first events are validated under that row. Where it
foresees one kind of decision badly, its neighbours are tried too, and one that foresees
them clearly better overrules the release. Without a release all rows are tried.

Rows differ in one kind of decision or two, often a rare one. So what a row misses is an
average over the kinds of decisions, of the share missed of each.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from pagetape import _replay
from pagetape.replaying import validate_run
from pagetape.schemas.tape import Tape, TapeError
from pagetape.tapes import cache

_EVENTS = 1 << 20  # that are validated
_NEAR = 2  # rows to each side of the release's
_FEWEST = 64  # decisions of a kind that say anything
_DOUBT = 0.05  # of the decisions of a kind missed: other rows are tried
_CLEARLY = 3 / 4  # of what the release's row misses, at most, overrules it

_OBSERVED = pa.schema([("row", pa.utf8()), ("missed", pa.float64()), ("doubtful", pa.bool_())])


@dataclass(frozen=True)
class Own:
    """The row of a tape's own kernel."""

    row: str
    because: str
    note: str | None = None  # what is to be said unasked


def row(tape: Tape, kernel: str) -> str:
    """The row to play by: the one named, or that of the tape's own kernel for "auto"."""
    if kernel != "auto":
        return _replay.kernel_for_release(kernel)
    found = own(tape)
    if found is None:
        raise TapeError(
            errno.EINVAL, f"{tape.path}: does not say which kernel it is from; give --kernel"
        )
    return found.row


def because(tape: Tape, kernel: str) -> str:
    """Why it is that row."""
    found = own(tape) if kernel == "auto" else None
    return found.because if found else "given"


def note(tape: Tape, kernel: str) -> str | None:
    """One line about it for a person, if it is not what the tape says of itself."""
    found = own(tape) if kernel == "auto" else None
    return found.note if found else None


@lru_cache(maxsize=16)
def own(tape: Tape) -> Own | None:
    """The row of the tape's own kernel; None where nothing tells."""
    release = _release(tape)
    claimed = _replay.kernel_for_release(release) if release else None
    observed: list[dict[str, Any]] = []
    if "replay" not in tape.facts:
        with suppress(OSError):  # what cannot be validated is told when it is played
            observed = _observe(tape, claimed)
    best = _best(observed, claimed)
    if best is None or best == claimed:
        return Own(claimed, f"release {release}") if claimed else None
    seen = _words(observed, best, claimed)
    if claimed:
        return Own(
            best,
            f"observed: {seen}",
            f"{tape.path}: played by the rules of {best}, not of its release {release}: {seen}",
        )
    return Own(
        best,
        f"observed: {seen}",
        f"{tape.path}: does not say which kernel it is from; {best} fits best: {seen}",
    )


def _release(tape: Tape) -> str | None:
    """The kernel's version; Debian's release string hides its last number."""
    debian = re.search(r" Debian (\d+\.\d+\.\d+)", tape.facts.get("version", ""))
    return debian[1] if debian else tape.facts.get("kernel")


def _candidates(claimed: str | None) -> list[str]:
    """The rows to try beside the release's, the nearest first; or all, the newest first.

    Of rows with the same features, one.
    """
    rows: dict[tuple[Any, ...], str] = {}
    for kernel in _replay.kernels():
        name, _, *features = kernel.values()
        if tuple(features) not in rows or name == claimed:
            rows[tuple(features)] = name
    names = list(rows.values())
    if claimed is None:
        return names[::-1]
    at = names.index(claimed)
    near = [n for n in range(len(names)) if 0 < abs(n - at) <= _NEAR]
    return [names[n] for n in sorted(near, key=lambda n: (abs(n - at), -n))]


def _validate(tape: Tape, row: str) -> dict[str, Any]:
    """What a row misses of the decisions among the tape's first events."""
    totals = validate_run.run(tape, row, lambda _name, _batch: None, most=_EVENTS).totals
    shares = [
        1 - totals[exact] / totals[nr] if totals[nr] >= _FEWEST else 0.0
        for _, nr, exact in validate_run.DECISIONS
    ]
    return {
        "row": row,
        "missed": sum(shares) / len(shares),
        "doubtful": max(shares) > _DOUBT,
    }


def _observe(tape: Tape, claimed: str | None) -> list[dict[str, Any]]:
    """What validating under each row gives; kept."""

    def rows() -> Iterator[dict[str, Any]]:
        if claimed:
            first = _validate(tape, claimed)
            yield first
            if not first["doubtful"]:
                return
        for name in _candidates(claimed):
            yield _validate(tape, name)

    found = cache.table(
        tape, "kernel", _OBSERVED, lambda: pa.Table.from_pylist([*rows()], _OBSERVED)
    )
    return list(found.to_pylist())


def _best(observed: list[dict[str, Any]], claimed: str | None) -> str | None:
    """The first of the rows that miss least, if it is clearly better than the release's.

    Without a release: than the worst, else the tape does not tell one kernel from another.
    """
    if not observed:
        return claimed
    best = min(observed, key=lambda one: float(one["missed"]))
    missed = {one["row"]: one["missed"] for one in observed}
    other = missed[claimed] if claimed else max(missed.values())
    clear = best["missed"] <= _CLEARLY * other - _DOUBT / len(validate_run.DECISIONS)
    return str(best["row"]) if clear else claimed


def _words(observed: list[dict[str, Any]], best: str, claimed: str | None) -> str:
    missed = {one["row"]: f"{100 * one['missed']:.1f} %" for one in observed}
    words = f"of each kind of decision {missed[best]} are missed on average"
    return f"{words}, by the rules of {claimed} {missed[claimed]}" if claimed else words

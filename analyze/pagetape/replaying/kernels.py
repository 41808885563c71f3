# SPDX-License-Identifier: Apache-2.0
"""Chooses the kernel rules for a tape: a row of the feature matrix.

`--kernel auto` takes the row of the tape's release, unless the recording contradicts it. The
release alone is not enough: stable trees received rewrites of the allocator (6.12.19 and
6.12.117 differ as 6.8 and 6.15 do), distributions carry patches, and a restored trace.dat has no
release. The tape's first events are therefore validated under that row. If the row predicts one
kind of decision badly, its neighbours are tried too. A row that predicts clearly better overrules
the release. Without a release, all rows are tried.

A recording with an exact start is validated before a free run anyway. That run begins under the
release's row, and goes on if its first events raise no doubt.

Rows differ in one or two kinds of decisions, often rare ones. The miss rate of a row is therefore
the average of its miss rates by kind of decision.
"""

import errno
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa

from pagetape import _replay
from pagetape.replaying import replay_span, run_ahead, validate_run
from pagetape.schemas.tape import Tape, TapeError
from pagetape.tapes import cache, kernel_rows

_NEAR = 2  # neighbours to try, on each side of the release's row
_FEWEST = 64  # least number of decisions of a kind for its miss rate
_DOUBTFUL = 0.05  # miss rate of a kind above which other rows are tried
_CLEARLY = 3 / 4  # a row below this fraction of the release row's miss rate overrules the release

# Features that decide nothing of what validate predicts, as only a free run compacts by itself, or
# too little to tell rows apart.
_UNSEEN = ("proactive", "proactive_weighed", "proactive_pauses", "late_stat_thresholds")

_OBSERVED = pa.schema([("row", pa.utf8()), ("missed", pa.float64()), ("doubtful", pa.bool_())])


@dataclass(frozen=True)
class Own:
    """The row of a tape's own kernel."""

    row: str
    because: str
    note: str | None = None  # one line for the user, on stderr


def check(tape: Tape, kernel: str) -> None:
    """Raise TapeError if no row has the rules of the tape's kernel, and none is given."""
    if kernel == "auto" and "replay" not in tape.facts and kernel_rows.is_preempt_rt(tape):
        words = (
            "the kernel has PREEMPT_RT, where tasks that hold a list's lock are preempted; no rules"
            " of the model are made for that; reports work; --kernel plays it by other rules"
        )
        raise TapeError(errno.ENOTSUP, f"{tape.path}: {words}")


def row(tape: Tape, kernel: str) -> str:
    """The row `kernel`, or that of the tape's own kernel for "auto"."""
    if kernel != "auto":
        return kernel_rows.asked(kernel)
    found = own(tape)
    if found is None:
        raise TapeError(errno.EINVAL, f"{tape.path}: the kernel release is unknown; give --kernel")
    return found.row


def because(tape: Tape, kernel: str) -> str:
    """The reason for the choice of the row."""
    found = own(tape) if kernel == "auto" else None
    return found.because if found else "given"


def note(tape: Tape, kernel: str) -> str | None:
    """One line for the user, if the row is not that of the tape's release."""
    found = own(tape) if kernel == "auto" else None
    return found.note if found else None


def about(tape: Tape, kernel: str) -> dict[str, Any]:
    """The facts of a run about its row."""
    return _about(tape, kernel, row(tape, kernel), because(tape, kernel))


def about_unproven(tape: Tape, found: Own) -> dict[str, Any]:
    """The facts of a run about the row of unproven()."""
    return _about(tape, "auto", found.row, found.because)


def _about(tape: Tape, kernel: str, chosen: str, why: str) -> dict[str, Any]:
    return {
        "kernel": chosen,
        "kernel_releases": kernel_rows.releases(chosen),
        "kernel_because": why,
        "kernel_warnings": kernel_rows.warnings(tape, chosen, kernel),
    }


@lru_cache(maxsize=16)
def own(tape: Tape) -> Own | None:
    """The row of the tape's own kernel; None if it is unknown."""
    release = kernel_rows.release(tape)
    claimed = _replay.kernel_for_release(release) if release else None
    observed: list[dict[str, Any]] = []
    if "replay" not in tape.facts:
        with suppress(OSError):  # playing the tape reports the error
            observed = _observe(tape, claimed)
    best = _best(observed, claimed)
    if best is None or best == claimed:
        return Own(claimed, f"release {release}") if claimed else None
    seen = _words(observed, best, claimed)
    if claimed:
        return Own(
            best,
            f"observed: {seen}",
            f"{tape.path}: played under the rules of {kernel_rows.named(best)}, not of its release"
            f" {release}: {seen}",
        )
    return Own(
        best,
        f"observed: {seen}",
        f"{tape.path}: the kernel release is unknown; {kernel_rows.named(best)} fits best: {seen}",
    )


def _candidates(claimed: str | None) -> list[str]:
    """The rows to try beside the release's row, nearest first; without it all rows, newest first.

    Rows count as one if they predict the same: one whose source was read stands for them.
    """
    read = {row.name for row in kernel_rows.known() if row.source}
    rows: dict[tuple[Any, ...], str] = {}
    for kernel in _replay.kernels():
        name = kernel["name"]
        rules = tuple(kernel[f.name] for f in kernel_rows.features() if f.name not in _UNSEEN)
        if rules not in rows or name == claimed or rows[rules] not in (read | {claimed}):
            rows[rules] = name
    names = list(rows.values())
    if claimed is None:
        return names[::-1]
    at = names.index(claimed)
    near = [n for n in range(len(names)) if 0 < abs(n - at) <= _NEAR]
    return [names[n] for n in sorted(near, key=lambda n: (abs(n - at), -n))]


def _validate(tape: Tape, row: str) -> dict[str, Any]:
    """The miss rate of a row among the tape's first events."""
    look = validate_run.Look(validate_run.FIRST)
    return _judged(row, validate_run.run(tape, row, look=look).totals)


def _judged(row: str, totals: Mapping[str, Any]) -> dict[str, Any]:
    """The miss rate of a row, by the totals of its run."""
    shares = [
        1 - totals[exact] / totals[nr] if totals[nr] >= _FEWEST else 0.0
        for _, nr, exact, _ in validate_run.DECISIONS
    ]
    return {
        "row": row,
        "missed": sum(shares) / len(shares),
        "doubtful": max(shares) > _DOUBTFUL,
    }


class Doubt(Exception):
    """The release's row predicts a kind of decision badly."""


class First:
    """The judge of a run under the release's row: it raises Doubt, or notes that the row fits."""

    def __init__(self, tape: Tape, row: str) -> None:
        self._tape = tape
        self._row = row

    def __call__(self, totals: Mapping[str, Any]) -> None:
        found = _judged(self._row, totals)
        if found["doubtful"]:
            raise Doubt
        _note_observed(self._tape, [found])


_observed: WeakKeyDictionary[Tape, list[dict[str, Any]]] = WeakKeyDictionary()


def _note_observed(tape: Tape, rows: list[dict[str, Any]]) -> None:
    _observed[tape] = rows
    cache.store(tape, "kernel", pa.Table.from_pylist(rows, _OBSERVED))


def _known(tape: Tape) -> list[dict[str, Any]] | None:
    """What was observed before; None: nothing."""
    if tape not in _observed and (found := cache.stored(tape, "kernel", _OBSERVED)) is not None:
        _observed[tape] = found.to_pylist()
    return _observed.get(tape)


def unproven(tape: Tape) -> Own | None:
    """The row of the release, if a run from the tape's own start has yet to judge it by First; else
    None."""
    release = kernel_rows.release(tape)
    row = _replay.kernel_for_release(release) if release else None
    exact = row and run_ahead.proves(tape) and replay_span.exact(tape, 0) is not None
    return Own(row, f"release {release}") if row and exact and _known(tape) is None else None


def _observe(tape: Tape, claimed: str | None) -> list[dict[str, Any]]:
    """The miss rate of each row that is tried; cached."""
    if unproven(tape) and claimed:
        with suppress(Doubt):
            run_ahead.from_own_start(tape, claimed, First(tape, claimed))
    if (known := _known(tape)) is not None:
        return known

    def rows() -> Iterator[dict[str, Any]]:
        if claimed:
            first = _validate(tape, claimed)
            yield first
            if not first["doubtful"]:
                return
        for name in _candidates(claimed):
            yield _validate(tape, name)

    _note_observed(tape, found := [*rows()])
    return found


def _best(observed: list[dict[str, Any]], claimed: str | None) -> str | None:
    """The first row with the lowest miss rate, if it is clearly better than the release's.

    Without a release, it must be clearly better than the worst row.
    """
    if not observed:
        return claimed
    best = min(observed, key=lambda one: float(one["missed"]))
    missed = {one["row"]: one["missed"] for one in observed}
    other = missed[claimed] if claimed else max(missed.values())
    clear = best["missed"] <= _CLEARLY * other - _DOUBTFUL / len(validate_run.DECISIONS)
    return str(best["row"]) if clear else claimed


def _words(observed: list[dict[str, Any]], best: str, claimed: str | None) -> str:
    missed = {one["row"]: f"{100 * one['missed']:.1f} %" for one in observed}
    words = f"{missed[best]} of the decisions are missed, as the mean over the kinds of decisions"
    return (
        f"{words}; under the rules of {kernel_rows.named(claimed)}, {missed[claimed]}"
        if claimed
        else words
    )

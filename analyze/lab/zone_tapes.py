#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a tape of the event set zone loses: each recording beside its projection.

    zone_tapes.py [--members N] [--jobs N] [--unseen] RECORDING...

A recording of all page events is projected, as `pagetape import --events zone` does. Both tapes are
validated one step ahead, and played as an ensemble under their own rules and under three policies
that do not concern the per-CPU lists. A metric of fallbacks or pageblocks agrees if the median of
the projection lies in the 80 % interval of the page tape.

The unseen half of the corpus (corpus.py) is left out, unless --unseen is given.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import corpus
import program
import recordings

from pagetape.asking import interval
from pagetape.asking.success import number
from pagetape.replaying import MEMBERS, ensemble, replay_span
from pagetape.replaying.model_error import recorded_metrics
from pagetape.replaying.playback import Run
from pagetape.replaying.validation import validate
from pagetape.schemas.tape import Tape
from pagetape.tapes import zone_events

POLICIES = ("nofragment:mode=off", "nofragment:mode=always", "zonelist")
_OWN = "own rules"
_HEADLINE = "fallbacks"

Members = dict[str, list[float]]  # by metric


def is_answered(metric: str) -> bool:
    """Whether a what-if on a zone tape is asked for this metric."""
    return _HEADLINE in metric or "pageblocks" in metric


def play(tape: Tape, nr: int, jobs: int | None) -> dict[str, Members]:
    """The members of the own rules and of each policy."""
    source = recordings.source(tape)
    found: dict[str, Members] = {label: {} for label in (_OWN, *POLICIES)}
    for label, members in found.items():
        run = Run("auto", () if label == _OWN else (label,))
        for row in ensemble.play(source, {"this": run}, nr, threads=jobs).to_pylist():
            if number(row["metric"], row["value"]) is not None and is_answered(row["metric"]):
                members.setdefault(row["metric"], []).append(row["value"])
    return found


def _agreement(tape: Tape, page: Members, zone: Members) -> list[float | int | None]:
    """The share of the metrics whose median lies in the interval of the page tape; their number."""
    about, kind = recorded_metrics(tape), replay_span.kind(tape)
    asked = [metric for metric in page if metric in about and metric in zone]
    good = 0
    for metric in asked:
        row = about[metric]
        found = interval.interval(metric, row["unit"], page[metric], kind, row["most"])
        good += found.holds(median(zone[metric]))
    return [round(100 * good / len(asked), 1) if asked else None, len(asked)]


def _interval(tape: Tape, members: Members) -> list[float]:
    """Median and 80 % interval of the fallbacks."""
    found = interval.interval(_HEADLINE, "events", members[_HEADLINE], replay_span.kind(tape))
    return [found.median, found.low, found.high]


def measure(page: Tape, zone: Tape, nr: int, jobs: int | None) -> dict[str, Any]:
    """The row of a recording and its projection."""
    ahead = [validate(tape, "auto") for tape in (page, zone)]
    played = [play(tape, nr, jobs) for tape in (page, zone)]
    right = [found["extfrag_exact"] for found in ahead]
    row: dict[str, Any] = {
        "recording": page.path.stem,
        "is": replay_span.kind(page),
        "fallbacks": ahead[0]["extfrag"],
        "right one step ahead, page": right[0],
        "zone": right[1],
        "of page's": [
            round(100 * min(right[1] / right[0], 1.0), 1) if right[0] else None,
            right[0],
        ],
        "own rules, page": _interval(page, played[0][_OWN]),
        "own rules, zone": _interval(zone, played[1][_OWN]),
    }
    for label in (_OWN, *POLICIES):
        row[f"agree, {label}"] = _agreement(page, played[0][label], played[1][label])
    return row


def _mean(cells: Sequence[list[Any]]) -> list[float | int | None]:
    """Shares together: weighted by their numbers."""
    total = sum(of for _, of in cells)
    share = round(sum(share * of for share, of in cells if of) / total, 1) if total else None
    return [share, total]


def summary(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """One row for the recordings of each kind."""
    for kind in interval.KINDS:
        those = [row for row in rows if row["is"] == kind]
        if not those:
            continue
        policies = [_mean([row[f"agree, {policy}"] for row in those]) for policy in POLICIES]
        least = [min(row[f"agree, {policy}"][0] for policy in POLICIES) for row in those]
        yield {
            "recordings that are": kind,
            "recordings": len(those),
            "right one step ahead, of those of page": _mean([row["of page's"] for row in those]),
            "least": min(row["of page's"][0] for row in those if row["of page's"][0] is not None),
            **dict(zip(POLICIES, policies, strict=True)),
            "recordings with >= 80 % under each policy": sum(share >= 80 for share in least),
        }


def chosen(paths: Sequence[Path], *, unseen: bool) -> Iterator[Path]:
    """The tapes at the paths, without the unseen half of the corpus."""
    names = {one.name for one in corpus.recordings() if one.half == "unseen"}
    yield from (path for path in recordings.tapes(paths) if unseen or path.stem not in names)


def main() -> None:
    """Measure each recording."""
    parser = program.parser(__doc__)
    parser.add_argument("--members", type=int, default=MEMBERS)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--unseen", action="store_true")
    parser.add_argument("recordings", type=Path, nargs="+")
    given = parser.parse_args()
    rows = []
    for path in chosen(given.recordings, unseen=given.unseen):
        program.say(f"== {path.stem}")
        with recordings.projected(path, zone_events.NAME) as zone:
            rows.append(measure(Tape(path), Tape(zone), given.members, given.jobs))
    program.give({"recordings": rows, "by_start": list(summary(rows))})


if __name__ == "__main__":
    program.run(main)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check on recordings that no metric which the model does not follow gets a verdict.

    followed.py [--policy SPEC] [--reclaim R0|R1] [--members N] RECORDING...

Plays a what-if of each recording, or of each tape in a directory. Each metric of its comparison
with the own rules must lie inside their interval, or be marked as not followed and have no verdict.
Exit status 1: a metric broke that rule.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import program
import recordings

from pagetape.asking.interval import GIVEN
from pagetape.replaying.engine_run import Progress, silent
from pagetape.replaying.playback import Run
from pagetape.replaying.prediction import predict
from pagetape.schemas.tape import Tape

POLICY = "nofragment:mode=always"


@dataclass
class Found:
    """The metrics of one comparison."""

    inside: list[str] = field(default_factory=list)
    not_followed: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)  # without a recorded value
    wrong: list[str] = field(default_factory=list)  # a verdict on one not followed, or none marked


def _inside(metric: Mapping[str, Any]) -> bool | None:
    """Whether the recorded value lies in the own rules' interval, from the numbers alone."""
    own, success = metric["own"], metric.get("success")
    if success and success["recorded"] and success["own"]:
        share = success["own"]["nr"] / success["own"]["of"]
        if success["recorded"]["nr"]:
            return bool(share >= 0.1)
        if share > 0.9:
            return False
    if metric["recorded"] is None or own["low"] is None:
        return None
    return bool(own["low"] <= metric["recorded"] <= own["high"])


def check(metrics: Sequence[Mapping[str, Any]]) -> Found:
    """Sort the metrics of `pagetape replay --json`."""
    found = Found()
    for metric in metrics:
        name, inside = metric["metric"], _inside(metric)
        difference = metric["difference"]
        silent_about = metric["scaled"] is None and (
            difference is None
            or (difference["value"] is difference["percent"] is None and not difference["shown"])
        )
        if metric["followed"] is not inside or (inside is False and not silent_about):
            found.wrong.append(name)
        if inside is None:
            found.unchecked.append(name)
        elif inside:
            found.inside.append(name)
        else:
            found.not_followed.append(name)
    return found


@contextlib.contextmanager
def _bar(_: str) -> Iterator[Progress]:
    yield silent


def measure(path: Path, policy: str, reclaim: str, members: int) -> Found:
    """The metrics of a what-if of a recording."""
    tape = Tape(path)
    source = recordings.source(tape)
    return check(predict(source, Run("auto", (policy,), reclaim), members, None, _bar)["metrics"])


def main() -> int:
    """Check the recordings of the command line."""
    parser = program.parser(__doc__)
    parser.add_argument("--policy", default=POLICY)
    parser.add_argument("--reclaim", choices=("R0", "R1"), default="R0")
    parser.add_argument("--members", type=int, default=16)
    parser.add_argument("recordings", type=Path, nargs="+")
    given = parser.parse_args()
    rows = []
    for path in given.recordings:
        if not path.is_dir():
            parser.error(f"{path}: no recording, and no directory of recordings")
    for one in recordings.tapes(given.recordings):
        program.say(f"== {one.stem}")
        found = measure(one, given.policy, given.reclaim, given.members)
        outside = [name for name in found.not_followed if name not in GIVEN]
        counts = map(len, (found.inside, found.not_followed, found.unchecked))
        rows.append([one.stem, *counts, "; ".join(outside), "; ".join(found.wrong)])
    columns = (
        "recording",
        "inside",
        "not followed",
        "not checked",
        "metrics not followed",
        "wrong",
    )
    program.give({"recordings": program.table(columns, rows)})
    return int(any(row[-1] for row in rows))


if __name__ == "__main__":
    program.run(main)

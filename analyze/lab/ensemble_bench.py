#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of an ensemble: N members under two policies, beside as many single replays.

    ensemble_bench.py [T.tape] [--members N] [--repeat N]

Without a tape, it makes the storm of sweep_bench.py: 4.9 M events. It prints the wall time of whole
commands, medians. A first command prepares the tape (inferred rows and the model's error are
cached):

  members   pagetape replay --ensemble N --policy nofragment:mode=always: N members of this policy
            and N of the own rules, and the run itself
  replays   a peer: pagetape replay --ensemble 0, times 2 N
  compare   pagetape compare of the bundled tape and a what-if without members, which plays
            the default ensemble of both
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median
from typing import Any

from program import ROOT
from sweep_bench import on, run

from pagetape.schemas.tape import Tape

_BUNDLED = ROOT / "analyze/demo/pressure.tape"
_POLICY = ("--policy", "nofragment:mode=always")


def measure(tape: Path, given: argparse.Namespace, directory: Path) -> dict[str, Any]:
    members, repeat = given.members, given.repeat
    cache, whatif = directory / "cache", directory / "whatif.tape"
    run(["replay", "--ensemble", 0, *_POLICY, tape], cache)
    run(["replay", "--ensemble", 0, *_POLICY, _BUNDLED, "-o", whatif], cache)
    found: dict[str, list[tuple[float, int]]] = {"members": [], "replay": [], "compare": []}
    for nr in range(repeat):
        fresh = directory / f"cache{nr}"  # the members of the own rules would be cached
        run(["replay", "--ensemble", 0, *_POLICY, tape], fresh)
        words = ["replay", "--ensemble", members, *_POLICY, tape]
        found["members"].append(run(words, fresh))
        found["replay"].append(run(["replay", "--ensemble", 0, tape], cache))
        run(["replay", "--ensemble", 0, *_POLICY, _BUNDLED], fresh)
        found["compare"].append(run(["compare", _BUNDLED, whatif], fresh))
    seconds = {name: median(time for time, _ in runs) for name, runs in found.items()}
    return {
        "bench": "ensemble",
        "events": Tape(tape).num_rows("event"),
        "members": members,
        "repeat": repeat,
        "members_s": seconds["members"],
        "replays_s": 2 * members * seconds["replay"],
        "ratio": seconds["members"] / (2 * members * seconds["replay"]),
        "members_bytes": max(size for _, size in found["members"]),
        "compare_s": seconds["compare"],
    }


if __name__ == "__main__":
    on(__doc__, measure, members=16)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of an ensemble: N members under two policies, beside as many single replays.

    ensemble_bench.py [T.tape] [--members N] [--json] [--repeat N]

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
import json
import runpy
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from pagetape.schemas.tape import Tape

_ROOT = Path(__file__).parents[2]
_BUNDLED = _ROOT / "analyze/demo/pressure.tape"
_POLICY = ("--policy", "nofragment:mode=always")

_sweep_bench = runpy.run_path(str(_ROOT / "analyze/lab/sweep_bench.py"))
run, storm = _sweep_bench["run"], _sweep_bench["storm"]


def measure(tape: Path, members: int, repeat: int, directory: Path) -> dict[str, Any]:
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("tape", nargs="?", type=Path)
    parser.add_argument("--members", type=int, default=16)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    with TemporaryDirectory(dir="/var/tmp") as name:
        directory = Path(name)
        tape = given.tape or storm(directory / "storm.tape")
        found = measure(tape, given.members, given.repeat, directory)
    if given.json:
        print(json.dumps(found, indent=2))
        return
    print(f"{found['members']} members x 2 policies of {found['events']:,} events")
    print(f"  ensemble                        {found['members_s']:7.1f} s")
    print(f"  {2 * found['members']} single replays            {found['replays_s']:7.1f} s")
    print(f"  ratio {found['ratio']:.2f}, peak memory {found['members_bytes'] / 1e6:,.0f} MB")
    print(f"  compare of the bundled tape     {found['compare_s']:7.1f} s, default ensemble")


if __name__ == "__main__":
    main()

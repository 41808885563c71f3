#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Switch rules of inference off, one at a time, and measure what each of them pays.

    ablate.py --install DIR [--rule NAME]... [--jobs N] [--reclaim R0|R1] TAPE...

DIR is an install whose rules can be switched off (replay/run/rules.h), made by

    pip install --no-deps --no-build-isolation -Cbuild-dir=build/rules \\
        -Csetup-args=-Dc_args=-DRULES_CAN_BE_OFF --target DIR .

`validate` reads each tape with all rules, and with each rule off. A figure is the change of the
exact share of a decision, in percentage points, when the rule is off: negative where the rule
pays. It is that of the decisions of all tapes together; the largest loss and the largest gain on
one tape stand beside them.

With --reclaim, `replay` plays each tape under its own rules instead. Its figures are those of all
metrics of all tapes: how many changed with the rule off, the mean error of the medians, in powers
of two, and how many recorded values lie in the intervals. Rules about the start, and rules whose
rows only a free run reads, show here alone.
"""

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import program
import recordings

RULES_H = program.ROOT / "replay/run/rules.h"
ALL_ON = "all rules on"

# The decisions of `validate --json`: its counts, exact counts and unknown counts.
DECISIONS = {
    "pages": ("allocs", "alloc_exact", "alloc_unknown"),
    "zone lock": ("zone_locked", "zone_locked_exact", "zone_locked_unknown"),
    "refill sizes": ("refills", "refill_size_exact", "refill_size_unknown"),
    "drained": ("drained", "drained_exact", "drained_unknown"),
    "drain sizes": ("drains", "drain_size_exact", "drain_size_unknown"),
    "fallbacks": ("extfrag", "extfrag_exact", "extfrag_unknown"),
}
_FEWEST = 20  # decisions of a tape that stands alone
_SHOWN = 0.2  # percentage points of a tape that stands alone

Counts = dict[str, tuple[int, int]]  # decision: how many, how many of them exact
Runs = Mapping[str, Counts]  # by tape


def rules() -> list[str]:
    """The names of the rules, in the order of the header."""
    return re.findall(r"^\tRULE\((\w+)\)", RULES_H.read_text(), re.MULTILINE)


def counts(answer: Mapping[str, int]) -> Counts:
    """The decisions of one answer of `validate --json`, without the unknown ones."""
    return {
        name: (answer[nr] - answer[unknown], answer[exact])
        for name, (nr, exact, unknown) in DECISIONS.items()
    }


Values = dict[str, tuple[float, float, float, float]]  # metric: recorded, median, low, high


def answer(install: Path, rule: str, words: list[object], cache: str) -> dict[str, Any]:
    """What a command of the install says without `rule`."""
    off = "" if rule == ALL_ON else rule
    environment = {"PYTHONPATH": str(install), "PAGETAPE_RULES_OFF": off, "XDG_CACHE_HOME": cache}
    code = "from pagetape.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words), "--json"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def replayed(install: Path, rule: str, tape: Path, reclaim: str, cache: str) -> Values:
    """The metrics of one tape that have a recorded value and a median."""
    metrics = answer(install, rule, ["replay", tape, "--reclaim", reclaim], cache)["metrics"]
    return {
        m["metric"]: (m["recorded"], m["median"], m["low"], m["high"])
        for m in metrics
        if m["recorded"] is not None and m["median"] is not None
    }


def error(value: tuple[float, float, float, float]) -> float:
    """How far a median is from what was recorded, in powers of two."""
    recorded, median, _, _ = value
    return abs(math.log2((median + 1) / (recorded + 1)))


def free_run_table(found: Mapping[str, Mapping[str, Values]]) -> dict[str, Any]:
    """A row for each rule, over the metrics of all tapes."""
    on = found[ALL_ON]
    rows = []
    for rule, tapes in found.items():
        pairs = [
            (v, on[tape][name])
            for tape in on
            for name, v in tapes[tape].items()
            if name in on[tape]
        ]
        changed = sum(v != before for v, before in pairs)
        mean = sum(error(v) for v, _ in pairs) / max(len(pairs), 1)
        inside = sum(v[2] <= v[0] <= v[3] for v, _ in pairs)
        rows.append([rule, len(pairs), changed, round(mean, 4), inside])
    columns = ("off", "values", "changed", "mean error, powers of two", "in the interval")
    return program.table(columns, rows)


def share(runs: Iterable[Counts], decision: str) -> float | None:
    """The exact share of a decision over several runs, in percent; None without any."""
    pairs = [run[decision] for run in runs]
    nr = sum(pair[0] for pair in pairs)
    return round(100 * sum(pair[1] for pair in pairs) / nr, 3) if nr else None


def change(on: Iterable[Counts], off: Iterable[Counts], decision: str) -> float | None:
    """The share with the rule off, less that with the rule on."""
    before, after = share(on, decision), share(off, decision)
    return None if before is None or after is None else round(after - before, 3)


def alone(on: Runs, off: Runs) -> Iterator[str]:
    """For each decision, the tapes with the largest loss and the largest gain."""
    for name in DECISIONS:
        found = {
            tape: change([on[tape]], [off[tape]], name) or 0.0
            for tape in on
            if on[tape][name][0] >= _FEWEST
        }
        for tape in dict.fromkeys(pick(found, key=lambda t: found[t]) for pick in (min, max)):
            if abs(found[tape]) >= _SHOWN:
                yield f"{name} {found[tape]:+.1f} on {tape}"


def table(found: Mapping[str, Runs]) -> dict[str, Any]:
    """A row for each rule, after the shares with all rules on."""
    on = found[ALL_ON]
    rows: list[list[Any]] = [[ALL_ON, *(share(on.values(), name) for name in DECISIONS), ""]]
    for rule, off in found.items():
        if rule != ALL_ON:
            changes = [change(on.values(), off.values(), name) for name in DECISIONS]
            rows.append([rule, *changes, "; ".join(alone(on, off))])
    return program.table(("off", *DECISIONS, "one tape"), rows)


def main() -> None:
    parser = program.parser(__doc__)
    parser.add_argument("--install", type=Path, required=True, metavar="DIR")
    parser.add_argument("--rule", action="append", choices=rules(), metavar="NAME")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--reclaim", choices=["R0", "R1"])
    parser.add_argument("tapes", nargs="+", type=Path, metavar="TAPE")
    given = parser.parse_args()
    tapes = list(recordings.tapes(given.tapes))
    found: dict[str, dict[str, Any]] = {}

    def measure(rule: str, tape: Path) -> Any:
        place = f"{cache}/{rule}"
        if given.reclaim:
            return replayed(given.install, rule, tape, given.reclaim, place)
        return counts(answer(given.install, rule, ["validate", tape], place))

    with TemporaryDirectory(prefix="ablate-") as cache, ThreadPoolExecutor(given.jobs) as pool:
        for rule in (ALL_ON, *(given.rule or rules())):
            runs = [pool.submit(measure, rule, tape) for tape in tapes]
            found[rule] = {t.stem: run.result() for t, run in zip(tapes, runs, strict=True)}
            program.say(f"ablate: {rule}")
    if given.reclaim:
        program.give({"free_runs": free_run_table(found)})
    else:
        program.give({"rules": table(found)})


if __name__ == "__main__":
    program.run(main)

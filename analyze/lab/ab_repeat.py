#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How well `pagetape ab` can predict at all: the model, beside a repetition of the live runs.

    ab_repeat.py AB.json...

Reads what `pagetape ab --json` printed. For each comparison from A to B, the model predicts the
live ratio with an interval. In its place, the ratio of each pair of runs predicts that of each
other pair, with an interval as wide in proportion. If the runs themselves are right as seldom as
the model, then their noise is the limit, and more or longer runs are the remedy.

Prints a table: by setting, the comparisons, and of how many the live ratio lies in the interval,
and has the right sign as well: that of the prediction, or neither the live runs nor the interval
show a difference. For pairs these are means over all orders of two, rounded.
"""

import json
from itertools import permutations
from pathlib import Path
from statistics import mean
from typing import Any

import program
from program import table

from pagetape.ab.verdict import sign
from pagetape.asking.interval import OFFSET, Ratio


def _right(predicted: Ratio, live: float, live_shown: bool) -> tuple[bool, bool]:
    """Whether the live ratio lies in the interval, and has the right sign as well."""
    inside = predicted.low <= live <= predicted.high
    same = sign(predicted.value) == sign(live) or not (live_shown or predicted.shown)
    return inside, inside and same


def of_model(metric: dict[str, Any]) -> tuple[float, float]:
    predicted = Ratio(*(metric[name] for name in ("predicted", "low", "high")))
    return _right(predicted, metric["live"], metric["live_shown"])


def of_pairs(metric: dict[str, Any]) -> tuple[float, float]:
    """The same for each pair of runs as a prediction of each other pair."""
    sides = [metric["recorded"][side]["values"] for side in "AB"]
    ratios = [(b + OFFSET) / (a + OFFSET) for a, b in zip(*sides, strict=False)]
    low, high = (metric[limit] / metric["predicted"] for limit in ("low", "high"))
    found = [
        _right(Ratio(one, one * low, one * high), other, metric["live_shown"])
        for one, other in permutations(ratios, 2)
    ]
    return mean(inside for inside, _ in found), mean(right for _, right in found)


def sums(found: dict[str, Any]) -> tuple[str, list[float]]:
    """A setting, its comparisons, and the four sums."""
    metrics = [
        metric
        for metric in found["metrics"]
        if metric["from"] == "A"
        and metric["predicted"] is not None
        and metric["metric"] != "allocs"
    ]
    right = [(1.0, *of_model(metric), *of_pairs(metric)) for metric in metrics]
    return found["switch"], [sum(column) for column in zip(*right, strict=True)]


def main() -> None:
    parser = program.parser(__doc__)
    parser.add_argument("files", type=Path, nargs="+", metavar="AB.json")
    rows: dict[str, list[float]] = {}
    for file in parser.parse_args().files:
        switch, found = sums(json.loads(file.read_text()))
        for name in (switch, "all"):
            before = rows.setdefault(name, [0.0] * 5)
            rows[name] = [a + b for a, b in zip(before, found or [0.0] * 5, strict=True)]
    rows["all"] = rows.pop("all")  # last
    columns = ("setting", "comparisons", "model: in the interval", "and the right sign")
    columns += ("another pair: in the interval", "and its sign")
    program.give(
        {"settings": table(columns, [[name, *map(round, row)] for name, row in rows.items()])}
    )


if __name__ == "__main__":
    program.run(main)

# SPDX-License-Identifier: Apache-2.0
"""Writes docs/validation.md from the results of validation.py."""

from __future__ import annotations

import platform
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from table import grid

from pagetape import answer
from pagetape.ab.result import cells

_HEAD = """# Predictions beside live A/B

Is a prediction right when the switch is really flipped? `make validation` runs
[`pagetape ab`](ab.md) for a fixed list of switches and loads on the local machine, and writes this
page. All results are here, the wrong ones too. Switches, values, loads and metrics were chosen
before the first recording. Written {date} on Linux {release}. Cases named `guest` ran in virtual
machines without KVM, with other kernels, which booted for each run.

[ab.md](ab.md#the-answer) defines the columns. In short: `live` is the ratio of the medians of the
runs, with the ratios of the runs that are farthest apart. `predicted` comes from the tapes of one
value alone, with an 80 % interval. `B/A` predicts B from the tapes of A, `A/B` predicts A from the
tapes of B.

Loads: `rounds` is a fixed amount of work, in which one process per CPU grows and shrinks
(`analyze/fidelity/rounds.py`). `extfrag` is 15 s of files, processes and huge pages with 1200 MiB
of memory (`analyze/fidelity/load.c`); it does more or less work in each run. The loads of the
guests are those of the corpus ([fidelity.md](fidelity.md)).
"""

_WHY = """## Wrong and undecided results, and their causes

- `vm.percpu_pagelist_high_fraction`: lists of a fixed size that 8 allows hold more than the load
  frees at once. Whether they overflow depends on how full they were at the start, and on
  how many pages one CPU allocates and the other frees. Both differ from run to run.
- Members of an ensemble drain some pages that the kernel did not (up to 200 times per run). A
  count that is 0 on the recordings is therefore some hundred pages in the model.
- `vm.defrag_mode`: on some tapes no request falls back under the model's own reclaim (R1), with
  either value, although requests did on the record. Such a tape predicts no difference, and one
  among several widens the interval up to 1. Tapes of 1 show it more often. The cause within R1 is
  not known yet.
- Counts that go through reclaim are modelled feedback ([feedback.md](feedback.md)). The model's own
  reclaim is outside a factor of 1.5 of the recorded counts on most recordings that nobody fitted it
  on. Their margins are not calibrated yet.
- `extfrag` ends after a time: a setting that makes it slower also makes it ask for less. The model
  plays the requests of the other setting.
"""


def _total(results: dict[str, Any]) -> str:
    """How many comparisons had each verdict."""
    counts = Counter(
        metric["verdict"]
        for found in results.values()
        for metric in found.get("metrics", ())
        if metric["verdict"]
    )
    rows = [[verdict, f"{nr:,}"] for verdict, nr in sorted(counts.items())]
    return grid(("verdict", "comparisons"), rows)


def _case(name: str, found: dict[str, Any]) -> str:
    head = f"## {name}\n\n"
    if "failed" in found:
        return f"{head}Load `{found['load']}`: no result. {answer.visible(found['failed'].strip())}"
    values = found["values"]
    columns = ("metric", f"A: {values['A']}", f"B: {values['B']}", "ratio", "live", "predicted")
    rows = [cells(metric) for metric in found["metrics"]]
    marked = [[*row[:-1], f"**{row[-1]}**" if row[-1] == "wrong" else row[-1]] for row in rows]
    partial = ""
    if found["partial"]:
        partial = f" Lost events or no exact start: {', '.join(found['partial'])}."
    return (
        f"{head}`{found['switch']}`, Linux {answer.visible(found['kernel'])}, load `{found['load']}`, {len(found['runs'])} runs, ensembles"
        f" of {found['ensemble']} per tape.{partial}\n\n"
        f"{grid((*columns, 'signs', 'verdict'), marked)}"
    )


def markdown(results: dict[str, Any]) -> str:
    """The page."""
    head = _HEAD.format(date=datetime.now(UTC).date(), release=platform.release())
    parts = [head.rstrip(), _total(results)]
    parts += [_case(name, found) for name, found in results.items()]
    return "\n\n".join([*parts, _WHY.rstrip()]) + "\n"

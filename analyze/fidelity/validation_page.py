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
before the first recording; the memory left to `extfrag` was lowered since, because a quiet machine
had no pressure. Written {date} on Linux {release}. Cases named `guest` run in virtual machines
without KVM, with other kernels, which boot for each run.

[ab.md](ab.md#the-answer) defines the columns. In short: `live` is the ratio of the medians of the
runs, with the ratios of the runs that are farthest apart. `predicted` comes from the tapes of one
value alone, with an 80 % interval. `B/A` predicts B from the tapes of A, `A/B` predicts A from the
tapes of B.

Loads: `rounds` is a fixed amount of work, in which one process per CPU grows and shrinks
(`analyze/fidelity/rounds.py`). `extfrag` is 15 s of files, processes and huge pages with 1200 MiB
of memory, or 2000 for `scale` (`analyze/fidelity/load.c`); it does more or less work in each run.
The loads of the guests are those of the corpus ([fidelity.md](fidelity.md)).
"""

_WHY = """## Wrong and undecided results, and their causes

- `vm.min_free_kbytes`, direct reclaims: the model's own reclaim (R1) frees only pages that the
  recorded reclaim freed. At 67584 that was little. At 270336 kswapd must free 200,000 pages at
  once: on one tape the model frees 9,336, lacks 2,242,875 (`reclaim_deficit_pages`), and requests
  reclaim in vain. Free pages at the end, from tapes of 270336: the model frees as much as under
  270336, because the record did.
- `vm.defrag_mode` in the guest: the sign is right, the size is not. From tapes of 0 the model
  leaves 30 % of the fallbacks, live 0.2 % are left. For the reason above the model's reclaim and
  compaction free too little for requests that may not mix, which then mix in the end.
- `vm.compaction_proactiveness`: the write itself makes kcompactd compact, before the first
  snapshot. The live runs therefore begin with other free pageblocks, which no tape of the other
  value has. During the runs the policy changes little, live and in the model. Fallbacks differ
  between equal runs by a factor of 2,000.
- Fallbacks under R1: on some live tapes under pressure the model has a hundredth of the recorded
  ones. Its reclaim and compaction come a little earlier, so requests that found no page of their
  type on the record find one. Such a tape shows no difference between the values.
- `vm.watermark_scale_factor`: equal runs differ by more than the two values: 0 to 46 passes of
  kswapd with 10.
- `vm.watermark_boost_factor`: few boosts on these runs, so few calls of kcompactd to compare.
- `vm.percpu_pagelist_high_fraction`, 0 and 8: the lists differ by less than equal runs do.
- Counts that go through reclaim are modelled feedback ([feedback.md](feedback.md)).
- `extfrag` ends after a time: a setting that makes it slower also makes it ask for less. The model
  plays the requests of the other setting.
"""


def _compared(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The metrics of a case that were predicted."""
    return [metric for metric in found.get("metrics", ()) if metric["verdict"]]


def _total(results: dict[str, Any]) -> str:
    """How many comparisons had each verdict."""
    counts = Counter(metric["verdict"] for found in results.values() for metric in _compared(found))
    rows = [[verdict, f"{nr:,}"] for verdict, nr in sorted(counts.items())]
    return grid(("verdict", "comparisons"), rows)


def _is_inside(metric: dict[str, Any]) -> bool:
    return bool(metric["low"] <= metric["live"] <= metric["high"])


def _shares(results: dict[str, Any]) -> str:
    """How often the live value lies in the interval and the sign is right, by switch."""
    rows = []
    found: dict[str, list[dict[str, Any]]] = {}
    for case in results.values():
        if compared := _compared(case):
            found.setdefault(case["switch"], []).extend(compared)
    for switch, metrics in found.items():
        inside = [metric for metric in metrics if _is_inside(metric)]
        right = sum(metric["sign"] for metric in inside)
        rows.append([f"`{switch}`", str(len(metrics)), str(len(inside)), str(right)])
    columns = ("switch", "comparisons", "live value in the interval", "and the right sign")
    return grid(columns, rows)


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
    kernel = answer.visible(found["kernel"])
    return (
        f"{head}`{found['switch']}`, Linux {kernel}, load `{found['load']}`,"
        f" {len(found['runs'])} runs, ensembles of {found['ensemble']} per tape.{partial}\n\n"
        f"{grid((*columns, 'signs', 'verdict'), marked)}"
    )


def markdown(results: dict[str, Any]) -> str:
    """The page."""
    head = _HEAD.format(date=datetime.now(UTC).date(), release=platform.release())
    parts = [head.rstrip(), _total(results), _shares(results)]
    parts += [_case(name, found) for name, found in results.items()]
    return "\n\n".join([*parts, _WHY.rstrip()]) + "\n"

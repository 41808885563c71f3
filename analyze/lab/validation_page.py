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

Is a prediction right when the switch is really flipped? `make validation` runs [`pagetape
ab`](ab.md) for a fixed list of switches and loads on the local machine, and writes this page. All
results are here, the wrong ones too. Switches, values, loads, metrics, rules and the model were
chosen before the recordings of this page, and not changed after them. Some choices followed from
results of earlier recordings: the memory left to `extfrag`, the case `guest-7.2-defrag-mode`, full
lists at the start of predictions of the warm-ups' value, and what counts as a `refill run`. Four
others made the live runs of `rounds` alike in all but the switch:

- The rounds begin at fixed times. Before, runs under smaller lists took 11 % longer.
- The requests of pagetape itself do not count ([ab.md](ab.md#the-settings)).
- The load begins with a second of the clock, as the kernel's vmstat workers do. Before, a tape of
  64 gave 20 % more pages drained at 0 than live: its ticks fell into other moments of the rounds.
- There are five pairs, not three. Under 8, three runs took 36,162, 36,462 and 56,931 pages.

On earlier recordings of these three cases, with most of the memory free, the live value was in the
interval with the right sign in 13, then 17 of 24 comparisons; without the last two choices, in 10
of the 16 of `high-fraction-8` and `high-fraction-64`. The cases of `vm.defrag_mode` were recorded
three times: 13, 18 and again 18 of 24 comparisons. The first recordings showed two errors of the
model, corrected since ([changes](CHANGELOG.md), free runs).

Written {date} on Linux {release}. Cases named `guest` run in virtual machines without KVM, with
other kernels, which boot for each run.

[ab.md](ab.md#the-answer) defines the columns. In short: `live` is the ratio of the medians of the
runs, with the ratios of the runs that are farthest apart. `predicted` comes from the tapes of one
value alone, with an 80 % interval. `B/A` predicts B from the tapes of A, `A/B` predicts A from the
tapes of B.

Loads: `rounds` is a fixed amount of work at fixed times, in which one process per CPU grows and
shrinks (`analyze/lab/rounds.py`). `extfrag` is 15 s of files, processes and huge pages with
1000 MiB of memory, 1600 for `min-free` and 2000 for `scale` (`analyze/lab/load.c`); it does
more or less work in each run.
The loads of the guests are those of the corpus ([fidelity.md](fidelity.md)).
"""

_WHY = """## Wrong and undecided results, and their causes

- `vm.percpu_pagelist_high_fraction` on the local machine: one of 24 predictions has the live value
  just outside its interval, 7 % off. The effect depends on the size of the zone: a machine whose
  memory is plugged in as it is used must have it all before the first run.
- `vm.percpu_pagelist_high_fraction` in the guest: the switch changes less than the runs of one
  value differ.
- `vm.defrag_mode`, direct reclaims: the model is wrong about them. In the guests of 7.2 and 7.3 it
  has too few. A tape of 1 has the reclaim that ran under 1, so the model under 0 has free pages
  where the live runs have none. In 7.2 a request under 1 repeats direct reclaim until a page turns
  up, 64 times and more within some ms. In the model no time passes meanwhile, and compaction mostly
  makes the page at the first attempt. On the local machine the live runs of both values overlap
  (761 to 2,024 and 582 to 1,171), where the model has twice as many under 1.
- `vm.defrag_mode`, fallbacks: a request that mixes after all fills a per-CPU list with up to 992
  pages, so a few such requests decide between 600 and 23,600 fallbacks, live as in the model.
- `vm.watermark_boost_factor`, fallbacks on the local machine: 46 to 5,086 under both values, for
  the same reason.
- `vm.compaction_proactiveness`: the write itself makes kcompactd compact, before the first
  snapshot. The live runs therefore begin with other free pageblocks, which no tape of the other
  value has. During the runs the policy changes little, live and in the model.
- `vm.watermark_scale_factor`, passes and sleeps of kswapd from tapes of 10: under 100 a live pass
  lasts 136 ms, one of the model 95 ms, so the model has twice as many in as much time. Why its
  passes end earlier is not known.
- `vm.min_free_kbytes` and `vm.watermark_scale_factor`, free pages at the end from tapes of the
  higher value: under lower marks the model ends with 3 and 11 % fewer, live runs with 11 and 4 %
  more. Runs of one value differ by more than that, with the moment at which the load ends.
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

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
results are here, the wrong ones too. Switches, values, loads, metrics and rules were chosen before
the recordings of this page, and not changed after them. Some choices followed from results of
earlier recordings: the memory left to `extfrag`, the case `guest-7.2-defrag-mode`, `refill runs`
only of orders that a list has, full lists at the start of predictions of the warm-ups' value, and
the fixed times of the rounds of `rounds`: before, runs under smaller lists took 11 % longer, with
as many more vmstat ticks. The local cases of `vm.percpu_pagelist_high_fraction` were recorded after
all others, after these times and two corrections of the model ([changes](CHANGELOG.md), limits that
change), with most of the memory free. On the recordings before, 13 of 24 comparisons were in the
interval with the right sign, on the last ones 17 of 24. When memory was short, with an earlier
model, it was 24 of 24, but the switch changed little. The cases of `vm.defrag_mode` were recorded
twice on this machine. On the first recordings, 13 of 24 comparisons were in the interval with the
right sign. They showed two errors of the model: requests of 7.2 did not reclaim for whole
pageblocks, and compaction for them was limited to the pages of recorded runs
([changes](CHANGELOG.md), free runs). With the corrections it was 19 of 24 of the same recordings.
The page has the second ones, made after the corrections.
Written {date} on Linux {release}. Cases named `guest` run in virtual machines without KVM, with
other kernels, which boot for each run.

[ab.md](ab.md#the-answer) defines the columns. In short: `live` is the ratio of the medians of the
runs, with the ratios of the runs that are farthest apart. `predicted` comes from the tapes of one
value alone, with an 80 % interval. `B/A` predicts B from the tapes of A, `A/B` predicts A from the
tapes of B.

Loads: `rounds` is a fixed amount of work at fixed times, in which one process per CPU grows and
shrinks (`analyze/fidelity/rounds.py`). `extfrag` is 15 s of files, processes and huge pages with
1000 MiB of memory, 1600 for `min-free` and 2000 for `scale` (`analyze/fidelity/load.c`); it does
more or less work in each run.
The loads of the guests are those of the corpus ([fidelity.md](fidelity.md)).
"""

_WHY = """## Wrong and undecided results, and their causes

- `vm.percpu_pagelist_high_fraction`, refill runs from tapes of 64 and 512: the recorder takes part
  in them. It writes two and three times as many events as under 0, into large pages of the page
  cache, and each size fills a list of its own. From a tape of 512, 134 of the model's refill runs
  at 0 are the recorder's and 256 those of the load; live, 69 to 96 and 233 to 242. The recorder's
  pages also are about 4 % of the pages taken at 0.
- `vm.percpu_pagelist_high_fraction`, drains at 0 from tapes of 8: 20 % too many in the median, but
  the runs of one setting differ as much, live (221,177 to 263,457) and in the model (233,506 to
  294,437). A vmstat tick shrinks a list by up to 2,016 pages, when it is idle at that moment.
- `vm.percpu_pagelist_high_fraction` in the guest: no metric differs between the values by more than
  equal runs do.
- `vm.defrag_mode`, direct reclaims: the model has too few of them. A tape of 1 has the reclaim that
  ran under 1, so the model under 0 has free pages where the live runs have none. In the guest of
  7.2 a request under 1 repeats direct reclaim until a page turns up, 64 times and more within some
  ms. In the model no time passes meanwhile, and compaction mostly makes the page at the first
  attempt. From tapes of 0, this sign is wrong.
- `vm.defrag_mode`, fallbacks: a request that mixes after all fills a per-CPU list with up to 992
  pages, so one such request decides between 50 and 1,000 fallbacks, live as in the model.
- `vm.watermark_boost_factor`, passes of kswapd on the local machine: 24 and 22,
  too close for a sign.
- `vm.compaction_proactiveness`: the write itself makes kcompactd compact, before the first
  snapshot. The live runs therefore begin with other free pageblocks, which no tape of the other
  value has. During the runs the policy changes little, live and in the model.
- `vm.watermark_scale_factor`: kswapd runs more often under 100 than the model says, by a factor of
  up to two. A tape of 10 has none or one pass of kswapd, so the model has no pace to go by.
- `vm.min_free_kbytes`: with 1600 MiB the local machine had no reclaim in any run, live or in the
  model. These comparisons show only that the model does not invent any.
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

# SPDX-License-Identifier: Apache-2.0
"""docs/feedback.md from the results of feedback.py."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from typing import Any

from table import grid

from pagetape import answer

Result = dict[str, Any]

_WITHIN = 1.5

_HEAD = """# The feedback model beside recordings

How true is the reclaim that the model runs itself (`pagetape replay --reclaim R1`)?
`make feedback FEEDBACK_TAPES=DIR` measures it and writes this page. How
kswapd's pace, the retries and the late wakes are fitted was settled while looking at recordings
of these loads: for the model the figures are not those of unseen ones. All figures of the
model are tier B. Written {date} on Linux {release}; the machine had other work at the same
time.
"""

_BOOSTS = """## Watermark boosts on and off: predicted, and tried

The same load (`load extfrag`, 25 s) was recorded again and again on this machine,
with `vm.watermark_boost_factor` at 15000 and at 0 in turns. Between equal runs figures
differ by a factor of two and more, so only larger differences say anything.
"""

_PREDICTED = """From one recording alone, with the factor as it was or not, the model
says what either factor does: `pagetape replay T.tape --reclaim R1 --policy
mainline:boost_factor=0`, and for kernels that boost at every fallback `--kernel 5.10`.
"""

_TRIED = """So the model foresees, from a recording of either kind, that without boosts hardly
anybody wakes kcompactd; that the factor does little to the fallbacks of a kernel since 6.15,
where only attempts to claim a pageblock boost; and that it does much to them on the kernels
before. The series that brought boosts to 5.0, and NOFRAGMENT with them, measured 93 to 98 % fewer
(`pagetape report extfrag.reduction`). How often boosts wake kcompactd, the model overstates
twofold and more.
"""

_OWN = """## Reclaim under the recording's own rules

Recorded, and by the model with `--reclaim R1`. Within is what differs by a factor of {within} at
most. kswapd is woken by the first call since its last pass or sleep: later calls find it on its
way, or, when the timer has ended its nap and it waits for a CPU, are told and wake nobody.
Fallbacks are below pageblock order; the model's error with R0 is how far a replay with
reclaim as recorded is from the record, and the error bar of every what-if on that recording.
"""

_SLEEP = """## When kswapd sleeps: 4.10 and since

`--policy kswapd_sleep:variant=v4.10,kcompactd=kswapd` and the same with `keepawake`, under the
rules of 4.20, which has no boosts and no proactive compaction: kcompactd is woken by a kswapd that
goes to sleep with a high order unserved, or not at all, as until 4.16. Once kswapd has reclaimed
twice the order it aims at single pages (an order reset). In 4.10 it then still needs every zone
balanced to sleep, and a DMA zone that keeps a reserve from others never is: it makes another
pass, for nobody's order, and forgets that kcompactd was to be woken. Its author saw
compact_daemon_wake at 0 after a day and a half, and at 5160 ten hours after the change. On
machines of one node the authors of the series found no difference. A kswapd of 4.10 makes more
passes there as well: all zones have to be balanced before it sleeps, and any one ends a pass.
"""

_WHY = """## What is outside, and why

- Boosts. On guest-6.1-exact 58 of 69 calls of kswapd are of boosts, 15 of them within 1.1 s
  for two pageblocks of zone DMA that change hands at every fallback. Which block a fallback
  takes is the free run's to get right (see fidelity.md).
- Direct reclaim. The model is asked at each recorded begin whether it is short as well, and
  says no where it holds more free pages than the kernel did. Its free pages are within some
  hundreds of the kernel's; the min watermarks of these guests are 250 to 300 pages.
- Passes and sleeps. The model takes a page early if it is in use by then, as long as the record
  has pages to reclaim: it frees in fewer and longer passes.
- Runs of kcompactd. What it is asked for when kswapd sleeps it finds when it next looks by itself:
  how many such looks there are, each of the above decides.

Not modelled: which pages fail to migrate, beyond their share; pageblocks with pages that
cannot move, out of which the kernel moves the others; throttling; the limits of dirty pages,
beyond the calls that they caused on the record. `pagetape replay --json` lists what no replay
can tell.
"""

_SLEPT = ("kcompactd_asked", "kcompactd_wakes", "passes", "sleeps", "order_resets")
_COLLAPSE = 3  # fewer by that factor
_FEW = 5  # wakes that a run more or less makes

_SAID = {
    "kcompactd_wakes": "runs of kcompactd",
    "passes": "passes of kswapd",
    "sleeps": "sleeps",
    "order_resets": "order resets",
}

_NAMES = {
    "passes": "kswapd passes",
    "sleeps": "kswapd sleeps",
    "kcompactd_wakes": "kcompactd runs",
    "direct_reclaims": "direct reclaims",
    "wakeups": "kswapd woken",
}


def _factor(recorded: int, model: int) -> str:
    """How far apart two counts are; one more or less is never outside."""
    low, high = sorted((recorded, model))
    if high - low <= 1:
        return "within by one"
    off = high / low if low else float("inf")
    return "within" if off <= _WITHIN else f"**{off:.1f}**"


def _live(pairs: dict[str, Result]) -> str:
    rows = []
    for name, result in pairs.items():
        counts = result["recorded"]
        columns = ("fallbacks", "kcompactd_asked", "kcompactd_wakes", "passes", "sleeps")
        cells = (f"{counts[column]:,}" for column in (*columns, "direct_reclaims"))
        rows.append([name, f"{result['factor']:,}", *cells])
    columns = ("recording", "factor", "fallbacks", "kcompactd woken", "kcompactd runs")
    return grid((*columns, "kswapd passes", "sleeps", "direct reclaims"), rows)


def _predicted(pairs: dict[str, Result]) -> str:
    rows = []
    for name, result in pairs.items():
        for setting, counts in result["model"].items():
            row, _, factor = setting.partition(" ")
            if not factor:
                continue
            columns = ("fallbacks", "kcompactd_asked", "kcompactd_wakes", "passes", "sleeps")
            cells = [f"{counts[column]:,}" for column in (*columns, "direct_reclaims")]
            own = row == "auto" and int(factor) == result["factor"]
            kernel = "its own" if row == "auto" else row
            rows.append([name, kernel, f"{int(factor):,}{' (as recorded)' if own else ''}", *cells])
    columns = ("recording", "kernel", "factor", "fallbacks", "kcompactd woken", "kcompactd runs")
    return grid((*columns, "kswapd passes", "sleeps", "direct reclaims"), rows)


def _effect(name: str, row: str, model: Result) -> str:
    on, off = model[f"{row} 15000"], model[f"{row} 0"]
    change = on["fallbacks"] - off["fallbacks"]
    percent = answer.share(change, off["fallbacks"])
    told = f"{change:+,}" if percent is None else f"{percent:+.1f} %"
    # The error was measured under the recording's own rules, and is no bar for others.
    if row == "auto" and abs(change) <= off["fallbacks_error"]:
        told += f" (within the model's error, {off['fallbacks_error']:,})"
    return (
        f"- {name}, {'its own kernel' if row == 'auto' else row}: boosts wake kcompactd"
        f" {on['kcompactd_asked']:,} times, without them it is {off['kcompactd_asked']:,};"
        f" fallbacks {told}."
    )


def _effects(pairs: dict[str, Result]) -> str:
    """What boosts do, by the model, in words."""
    return "\n".join(
        _effect(name, setting.removesuffix(" 0"), result["model"])
        for name, result in pairs.items()
        for setting in result["model"]
        if setting.endswith(" 0")
    )


def _own(others: dict[str, Result]) -> str:
    rows = []
    for name, result in others.items():
        counts, model = result["recorded"], result["model"]
        for column, words in _NAMES.items():
            recorded, found = counts[column], model["R1"][column]
            rows.append([name, words, f"{recorded:,}", f"{found:,}", _factor(recorded, found)])
        error = model["R0"]["fallbacks_error"]
        told = f"{model['R1']['fallbacks']:,} (R0: {model['R0']['fallbacks']:,}, off by {error:,})"
        rows.append([name, "fallbacks", f"{counts['fallbacks']:,}", told, "-"])
    return grid(("recording", "", "recorded", "model", "off by a factor of"), rows)


def _differ(name: str, nodes: int, old: Result, new: Result) -> str:
    """What the variants do to kcompactd on one recording, in words."""
    asked, before = new["kcompactd_asked"], old["kcompactd_asked"]
    if not new["passes"]:
        return f"- {name}: kswapd is not woken."
    if _factor(before, asked).startswith("within"):
        told = f"no difference in wakes of kcompactd, {before:,} and {asked:,}"
        others = [_SAID[c] for c in _SLEPT[1:] if not _factor(old[c], new[c]).startswith("within")]
        if others:
            told += f"; {' and '.join(others)} differ"
    elif max(before, asked) < _FEW:
        told = f"too few wakes of kcompactd to compare, {before:,} and {asked:,}"
    elif before * _COLLAPSE <= asked:
        told = f"wakes of kcompactd collapse, from {asked:,} to {before:,}"
    else:
        told = f"wakes of kcompactd differ, {before:,} and {asked:,}"
    return f"- {name}, {answer.amount(nodes, 'node')}: {told}."


def _sleeps(results: dict[str, Result]) -> str:
    rows = []
    words = []
    for name, result in results.items():
        if "v4.10" not in result["model"]:
            continue
        old, new = result["model"]["v4.10"], result["model"]["keepawake"]
        nodes = result["recorded"]["nodes"]
        cells = [f"{old[c]:,} / {new[c]:,}" for c in (*_SLEPT, "direct_reclaims")]
        rows.append([name, str(nodes), *cells])
        words.append(_differ(name, nodes, old, new))
    columns = ("v4.10 / keepawake", "nodes", "kcompactd woken", "kcompactd runs")
    table = grid((*columns, "kswapd passes", "sleeps", "order resets", "direct reclaims"), rows)
    return table + "\n\n" + "\n".join(words)


def markdown(pairs: dict[str, Result], others: dict[str, Result]) -> str:
    """The page."""
    head = _HEAD.format(date=datetime.now(UTC).date(), release=platform.release())
    parts = [head.rstrip()]
    if pairs:
        parts += [_BOOSTS.rstrip(), _live(pairs), _PREDICTED.rstrip(), _predicted(pairs)]
        parts += [_effects(pairs), _TRIED.rstrip()]
    if others:
        parts += [_OWN.format(within=_WITHIN).rstrip(), _own(others)]
    if pairs or others:
        parts += [_SLEEP.rstrip(), _sleeps(pairs | others)]
    return "\n\n".join([*parts, _WHY.rstrip()]) + "\n"

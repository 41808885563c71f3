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
`make feedback FEEDBACK_TAPES=DIR` measures it and writes this page. All figures of the
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
most. Fallbacks are below pageblock order; the model's error with R0 is how far a replay with
reclaim as recorded is from the record, and the error bar of every what-if on that recording.
"""

_SLEEP = """## When kswapd sleeps: 4.10 and since

`--policy kswapd_sleep:variant=v4.10,kcompactd=kswapd` and the same with `keepawake`, under the
rules of 4.20, which has no boosts: kcompactd is woken by a kswapd that goes to sleep with a high
order unserved, or not at all, as until 4.16. On a machine of one node the authors of the change
found no difference.
"""

_WHY = """## What is outside, and why

- Wakes of kswapd. The model's kswapd is woken by requests as they are served. A request that
  waited shows only once, when it was served; on the record it woke kswapd at every try.
- Fallbacks, and with them boosts, passes of kswapd and runs of kcompactd. On the storms a
  free run loses the kernel's track (see fidelity.md), and compaction is played where it
  happened on the record, not where the model needs it.
- Sleeps. The model takes a page early if it is in use by then, as long as the record has pages
  to reclaim: it frees in fewer and longer passes.
- Direct reclaim. The model is asked at each recorded begin whether it is short as well, and
  says no where it holds more free pages than the kernel did. Without an exact snapshot an error
  of a few hundred pages is as large as the watermarks of a small guest: on two tapes that begin
  from /proc the model made 73 and 1 of 494 and 210 direct reclaims, none of which freed a page.

Not modelled: direct compaction and proactive compaction as runs of their own (what they
did is played as recorded where an exact snapshot proves it); which pages fail to migrate,
beyond their share; throttling. `pagetape replay --json` lists what no replay can tell.
"""

_SLEPT = ("kcompactd_asked", "kcompactd_wakes", "sleeps")

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


def _sleeps(results: dict[str, Result]) -> str:
    rows = []
    alike = []
    for name, result in results.items():
        if "v4.10" not in result["model"]:
            continue
        old, new = result["model"]["v4.10"], result["model"]["keepawake"]
        cells = [f"{old[c]:,} / {new[c]:,}" for c in (*_SLEPT, "direct_reclaims")]
        rows.append([name, str(result["recorded"]["nodes"]), *cells])
        if new["passes"] and all(_factor(old[c], new[c]).startswith("within") for c in _SLEPT):
            alike.append(name)
    columns = ("v4.10 / keepawake", "nodes", "kcompactd woken", "kcompactd runs", "sleeps")
    words = f"\n\nNo difference in these on {', '.join(alike)}." if alike else ""
    return grid((*columns, "direct reclaims"), rows) + words


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

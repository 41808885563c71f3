# SPDX-License-Identifier: Apache-2.0
"""pagetape top: live view of this machine's page allocator."""

from __future__ import annotations

import collections
import contextlib
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click

from pagetape import answer, terminal
from pagetape.commands import options
from pagetape.recording import live

Sample = dict[str, Any]

_BARS = "▁▂▃▄▅▆▇█"
_SAMPLES = 40  # of the history

_SHORT = {
    "direct_reclaim_begin": "direct reclaim",
    "mark_victim": "OOM kills",
    "begin": "compaction runs",
}


def _number(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 or rate == 0 else f"{rate:.1f}"


def _rates(found: dict[str, float]) -> str:
    named = ((_SHORT.get(name, name.replace("_", " ")), rate) for name, rate in found.items())
    return ", ".join(f"{name} {_number(rate)}" for name, rate in named)


def text(sample: Sample, which: str, width: int | None = None) -> str:
    """Format one sample as text; tables have at most `width` characters a line."""

    def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
        if width is None:
            return answer.table(columns, rows)
        return terminal.fitted(columns, rows, width)

    lost = "unknown" if sample["lost"] is None else answer.amount(sample["lost"], "event")
    lines = [f"{sample['at']}  over {sample['seconds']:.2f} s  lost: {lost}", ""]
    if which != "cheap":
        allocs = sample["allocs_per_s"]
        lines += [
            table(("order", *allocs), [("allocs/s", *(_number(nr) for nr in allocs.values()))]),
            "",
            f"pages/s: freed {_number(sample['freed_pages_per_s'])}, "
            f"refilled {_number(sample['refill_pages_per_s'])}, "
            f"drained {_number(sample['drain_pages_per_s'])}; "
            f"failed allocations/s: {_number(sample['failed_allocs_per_s'])}",
        ]
    fallbacks = (
        f"{row['alloc_migratetype']} from {row['fallback_migratetype']} {_number(row['per_s'])}"
        for row in sample["fallbacks"]
    )
    lines += [
        f"fallbacks/s: {', '.join(fallbacks) or 0}",
        f"reclaim/s: {_rates(sample['reclaim_per_s'])}",
        f"compaction/s: {_rates(sample['compaction_per_s'])}",
        "",
    ]
    rows = [
        [
            f"node {zone['node']} {zone['zone']}",
            zone["free"],
            _usable(zone),
            *(zone[name] for name in ("wmark_min", "wmark_low", "wmark_high", "boost")),
        ]
        for zone in sample["zones"]
    ]
    lines.append(table(("pages", "free", "usable", "min", "low", "high", "boost"), rows))
    if sample["tasks"]:
        lines += [
            "",
            table(("task", "threads", "pages/s", "fallbacks/s"), list(map(_task, sample["tasks"]))),
        ]
    return "\n".join(lines)


def _usable(zone: dict[str, Any]) -> str | int | None:
    """A zone's usable pages; at most so many if the kernel does not print every count."""
    if zone["usable"] is None or zone["usable_exact"]:
        usable: int | None = zone["usable"]
        return usable
    return f"<= {zone['usable']}"


def _task(row: dict[str, Any]) -> tuple[Any, ...]:
    pages = row["pages_per_s"]
    rates = ("-" if pages is None else _number(pages), _number(row["fallbacks_per_s"]))
    return (row["comm"], row["threads"], *rates)


def sparkline(values: Sequence[float]) -> str:
    """Values as bars between 0 and the largest."""
    most = max(values, default=0) or 1
    return "".join(_BARS[round(value / most * (len(_BARS) - 1))] for value in values)


def _history(values: Sequence[float], which: str) -> str:
    what = "fallbacks" if which == "cheap" else "allocations"
    return f"{what}/s, 0 to {_number(max(values))}: {sparkline(values)}"


def _total(sample: Sample, which: str) -> float:
    if which == "cheap":
        return float(sum(row["per_s"] for row in sample["fallbacks"]))
    return float(sum(sample["allocs_per_s"].values()))


@contextlib.contextmanager
def _lines() -> Iterator[Callable[[Sample], None]]:
    """Print samples as JSON, one line each."""
    yield lambda sample: answer.say(answer.dumps(sample))


@contextlib.contextmanager
def _screen(which: str) -> Iterator[Callable[[Sample], None]]:
    """Show samples as text: in place on a terminal, otherwise one after another."""
    if not sys.stdout.isatty():
        yield lambda sample: answer.say(f"{text(sample, which)}\n")
        return
    from rich.live import Live
    from rich.text import Text

    past: collections.deque[float] = collections.deque(maxlen=_SAMPLES)
    with Live(screen=True, auto_refresh=False) as screen:

        def show(sample: Sample) -> None:
            past.append(_total(sample, which))
            shown = f"{_history(past, which)}\n{text(sample, which, terminal.width())}"
            screen.update(Text(answer.visible(shown, keep="\n")), refresh=True)

        yield show


@click.command("top")
@click.option(
    "--events",
    "which",
    type=click.Choice(("page", "cheap")),
    default="page",
    show_default=True,
    help="page: every page allocated and freed, and all rare events. cheap: rare events only.",
)
@click.option(
    "--interval",
    type=options.duration(0.2),
    default="1s",
    show_default=True,
    metavar="TIME",
    help="Length of one sample; at least 200ms.",
)
@click.option(
    "--count",
    type=click.IntRange(1),
    metavar="N",
    help="Number of samples.  [default: until Ctrl-C]",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object per sample, one per line."
)
def command(which: str, interval: float, count: int | None, as_json: bool) -> None:
    """Show the live activity of this machine's page allocator.

    All rates are per second: allocations by order, pages freed, pages refilled from the buddy to
    per-CPU lists and drained back, fallbacks by pair of migratetypes, kswapd, reclaim and
    compaction. For each zone, the view shows free pages, those of them that a kernel request
    (GFP_KERNEL) may use, watermarks (without the boost) and the boost, in pages. CMA, HIGHATOMIC
    and the zone's lowmem_reserve are free and not usable. The last table has the ten tasks that
    allocate most (with --events cheap: that cause most fallbacks); in interrupt context the task is
    the interrupted one. On a terminal, the first line has the rates of the last 40 samples as bars.

    The command counts the events of its own tracefs instance, and removes the instance at the
    end. It does not disturb other tracing. It needs the same rights as `pagetape record`.
    --events page costs CPU time for every page event, as a recording does. --events cheap does not
    count pages: their rates are null in the JSON.

    \b
    Example:
      pagetape top
      pagetape top --events cheap --interval 5s --json >> allocator.jsonl
    """
    with (
        contextlib.closing(live.intervals(interval, which)) as found,
        _lines() if as_json else _screen(which) as show,
    ):
        for one in itertools.islice(found, count):
            show(one.as_json())

# SPDX-License-Identifier: Apache-2.0
"""pagetape top: live view of this machine's page allocator."""

import collections
import contextlib
import itertools
import os
import shutil
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from pagetape import answer, keys, terminal
from pagetape.commands import options
from pagetape.recording import live
from pagetape.recording.workload import Workload

if TYPE_CHECKING:
    from rich.live import Live

Sample = dict[str, Any]

_BARS = "▁▂▃▄▅▆▇█"
_PAGE = os.sysconf("SC_PAGE_SIZE")
_SAMPLES = 40  # of the history

_SHORT = {
    "direct_reclaim_begin": "direct reclaim",
    "mark_victim": "OOM kills",
    "begin": "compaction runs",
}


def _number(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 or rate == 0 else f"{rate:.1f}"


def _pages(rate: float) -> str:
    """A rate of pages, and the same in MiB."""
    return f"{_number(rate)} ({answer.mib(rate * _PAGE)}/s)"


def _in_mib(pages: float) -> float:
    return pages * _PAGE / (1 << 20)


def _mib(pages: int | None) -> float | None:
    return None if pages is None else round(_in_mib(pages), 1)


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
            f"pages/s: freed {_pages(sample['freed_pages_per_s'])}, "
            f"refilled {_pages(sample['refill_pages_per_s'])}, "
            f"drained {_pages(sample['drain_pages_per_s'])}",
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
            _mib(zone["free"]),
            _usable(zone),
            _mib(zone["usable"]),
            *(zone[name] for name in ("wmark_min", "wmark_low", "wmark_high", "boost")),
        ]
        for zone in sample["zones"]
    ]
    lines.append(
        table(("pages", "free", "MiB", "usable", "MiB", "min", "low", "high", "boost"), rows)
    )
    if sample["tasks"]:
        lines += [
            "",
            table(
                ("task", "threads", "pages/s", "MiB/s", "fallbacks/s"),
                list(map(_task, sample["tasks"])),
            ),
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
    rates = ("-", "-") if pages is None else (_number(pages), f"{_in_mib(pages):,.1f}")
    return (row["comm"], row["threads"], *rates, _number(row["fallbacks_per_s"]))


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


class _Screen:
    """Samples in place on a terminal, and the keys that change what is shown."""

    def __init__(self, screen: "Live", which: str, sort: str, quit: Callable[[], None]) -> None:
        self._screen = screen
        self._which = which
        self._quit = quit
        self._sorts = [name for name in live.SORTS if name in _sorts(which)]
        self._sort = sort
        self._keys = False  # whether keys are watched
        self._found: live.Interval | None = None
        self._past: collections.deque[float] = collections.deque(maxlen=_SAMPLES)
        self._drawing = threading.Lock()

    def show(self, found: live.Interval) -> None:
        """Show a new sample."""
        self._past.append(_total(found.as_json(self._sort), self._which))
        self._found = found
        self._draw()

    def press(self, key: str) -> None:
        """Do what a key asks for."""
        if key in "qQ":
            self._quit()
        elif key == "s":
            at = self._sorts.index(self._sort)
            self._sort = self._sorts[(at + 1) % len(self._sorts)]
            self._draw()
        elif key in (named := {name[0]: name for name in self._sorts}):
            self._sort = named[key]
            self._draw()

    def watches(self, keys: bool) -> None:
        """Whether the last line may name keys."""
        self._keys = keys

    def _draw(self) -> None:
        from rich.text import Text

        with self._drawing:
            if self._found is None:
                return
            size = shutil.get_terminal_size()
            said = text(self._found.as_json(self._sort), self._which, size.columns)
            lines = answer.visible(f"{_history(self._past, self._which)}\n{said}", "\n").split("\n")
            shown = cut(lines, self._last_line(), size.columns, size.lines)
            self._screen.update(Text("\n".join(shown), no_wrap=True), refresh=True)

    def _last_line(self) -> str:
        if not self._keys:
            return f"tasks by {self._sort}; Ctrl-C ends"
        names = (f"[{name}]" if name == self._sort else name for name in self._sorts)
        return f"q quit  s next order  tasks by: {' '.join(names)} (first letter)"


def cut(lines: Sequence[str], last: str, columns: int, height: int) -> list[str]:
    """`lines`, wrapped, and `last` below them: never more than `height` lines of `columns`."""
    shown = [part for line in lines for part in textwrap.wrap(line, columns) or [""]]
    return [*shown[: max(height - 2, 0)], "", last[:columns]][-height:]


def _sorts(which: str) -> Sequence[str]:
    """The orders of tasks that an event set has."""
    return [name for name in live.SORTS if which != "cheap" or name != "pages"]


@contextlib.contextmanager
def _screen(
    which: str, sort: str, quit: Callable[[], None]
) -> Iterator[Callable[[live.Interval], None]]:
    """Show samples as text: in place on a terminal, otherwise one after another."""
    if not sys.stdout.isatty():
        yield lambda found: answer.say(f"{text(found.as_json(sort), which)}\n")
        return
    from rich.live import Live

    with Live(screen=True, auto_refresh=False) as live_screen:
        screen = _Screen(live_screen, which, sort, quit)
        with keys.watched(screen.press) as watched:
            screen.watches(watched)
            yield screen.show


@contextlib.contextmanager
def _lines(sort: str) -> Iterator[Callable[[live.Interval], None]]:
    """Print samples as JSON, one line each."""
    yield lambda found: answer.say(answer.dumps(found.as_json(sort)))


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
    help="Number of samples.  [default: until Ctrl-C, or q on a terminal]",
)
@click.option(
    "--sort",
    type=click.Choice(tuple(live.SORTS)),
    help="Order of the tasks: most pages, fallbacks or threads first, or by name.  [default: pages,"
    " with --events cheap fallbacks]",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object per sample, one per line."
)
def command(
    which: str, interval: float, count: int | None, sort: str | None, as_json: bool
) -> None:
    """Show the live activity of this machine's page allocator.

    All rates are per second: allocations by order, pages freed, pages refilled from the buddy to
    per-CPU lists and drained back, fallbacks by pair of migratetypes, kswapd, reclaim and
    compaction. For each zone, the view shows free pages, those of them that a kernel request
    (GFP_KERNEL) may use, watermarks (without the boost) and the boost, in pages, free and usable
    ones also in MiB. CMA, HIGHATOMIC and the zone's lowmem_reserve are free and not usable. The
    last table has the first ten tasks of the order of --sort; in interrupt context the task is the
    interrupted one.

    On a terminal, the first line has the rates of the last 40 samples as bars. There, q quits, s
    takes the next order of the tasks, and p, f, t and n take the order by pages, fallbacks,
    threads or name. The last line has the order.

    The command counts the events of its own tracefs instance, and removes the instance at the
    end. It does not disturb other tracing. It needs the same rights as `pagetape record`.
    --events page costs CPU time for every page event, as a recording does. --events cheap does not
    count pages: their rates are null in the JSON.

    \b
    Example:
      pagetape top
      pagetape top --events cheap --interval 5s --json >> allocator.jsonl
    """
    sort = sort or _sorts(which)[0]
    if sort not in _sorts(which):
        raise click.UsageError("--sort pages: --events cheap does not count pages")
    workload = Workload([], None)
    with (
        contextlib.closing(live.intervals(interval, which, workload)) as found,
        _lines(sort) if as_json else _screen(which, sort, workload.stop) as show,
    ):
        for one in itertools.islice(found, count):
            show(one)

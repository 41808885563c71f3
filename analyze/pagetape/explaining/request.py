# SPDX-License-Identifier: Apache-2.0
"""The request behind a report: order, mask, context, and the zones that it may take."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pagetape.explaining import gfp
from pagetape.explaining.memory_state import ORDER, State
from pagetape.explaining.release import Kernel, contradictions, inferred_from, named
from pagetape.explaining.reports import Report
from pagetape.gfp_names import Flags, Release

# In the trace of a task that frees memory itself (PF_MEMALLOC), and of an interrupt.
_RECLAIM = re.compile(
    r"(?<!\? )\b(?:try_to_free_pages|do_try_to_free_pages|balance_pgdat|kswapd|shrink_node"
    r"|shrink_zone|shrink_lruvec|__alloc_pages_direct_compact|compact_zone|__perform_reclaim)\+"
)
_INTERRUPT = re.compile(
    r"(?m)"  # `--- interrupt` is of PowerPC
    r"<IRQ>|<SOFTIRQ>|^--- interrupt|(?<!\? )\b(?:__do_softirq|handle_softirqs|do_softirq\w*"
    r"|irq_exit\w*|run_ksoftirqd|net_rx_action|tasklet_action\w*|handle_irq\w*|__handle_domain_irq|do_IRQ)\+"
)

_LAYOUTS: dict[int, list[tuple[str, ...]]] = {
    1: [("Normal",)],
    2: [("Normal", "Movable"), ("DMA", "Normal"), ("Normal", "HighMem")],
    3: [
        ("DMA", "Normal", "Movable"),
        ("DMA32", "Normal", "Movable"),
        ("Normal", "HighMem", "Movable"),
        ("DMA", "Normal", "HighMem"),
        ("DMA", "DMA32", "Normal"),
        ("Normal", "Movable", "Device"),
    ],
    4: [
        ("DMA", "DMA32", "Normal", "Movable"),
        ("DMA", "Normal", "HighMem", "Movable"),
        ("DMA32", "Normal", "Movable", "Device"),
        ("DMA", "Normal", "Movable", "Device"),
        ("Normal", "HighMem", "Movable", "Device"),
        ("DMA", "DMA32", "Normal", "HighMem"),
    ],
    5: [
        ("DMA", "DMA32", "Normal", "Movable", "Device"),
        ("DMA", "Normal", "HighMem", "Movable", "Device"),
    ],
    6: [("DMA", "DMA32", "Normal", "HighMem", "Movable", "Device")],
}


@dataclass
class Request:
    """A request. `assumed` says which parts the message does not show; `doubts` are reasons why its
    explanation is not sure."""

    kind: str
    order: int | None
    flags: Flags | None
    printed: str | None  # the mask as printed
    kernel: Kernel
    context: str = "unknown"
    comm: str | None = None
    reclaims: bool = False
    nodes: set[int] | None = None  # of nodemask or cpuset; None: all
    order_assumed: int = 0  # where `order` is unknown
    assumed: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        printed = re.search(r"\(([^)]+)\)", self.printed or "")
        if printed:
            return "".join(printed[1].split()).split("|")
        return gfp.names(self.flags or frozenset(), self.kernel.first)

    def highest(self, layout: tuple[str, ...]) -> str:
        """The highest zone that the mask allows, of those that the kernel is built with."""
        flags = self.flags or frozenset()
        has_highmem = "HIGHMEM" in flags
        if "DMA" in flags:
            want = "DMA"
        elif "DMA32" in flags:
            want = "DMA32"
        elif has_highmem and "MOVABLE" in flags:
            want = "Movable"
        else:
            want = "HighMem" if has_highmem else "Normal"
        if want in layout:
            return want
        if want in ("Movable", "HighMem"):
            lower = [zone for zone in layout if ORDER.index(zone) < ORDER.index(want)]
            return lower[-1] if lower else layout[-1]
        return "Normal"  # a kernel without such a zone


def _numbers(text: str) -> set[int]:
    """The numbers of a list such as 0-2,5."""
    found: set[int] = set()
    for part in text.split(",")[:64]:
        if one := re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", part):
            found |= set(range(int(one[1]), int(one[2] or one[1]) + 1))
    return found


def _kernel(report: Report, asked: str | None) -> Kernel:
    if asked and (kernel := named(asked)):
        return kernel
    if report.release and (kernel := named(report.release)):
        return kernel
    header = report.header.found if report.header else {}
    limits: list[tuple[Release, Release]] = []
    if (mask := header.get("mask")) and not header.get("masked"):
        value, names = int(mask, 16), header.get("names")
        for era in gfp.eras():
            flags, unknown = era.flags(value)
            if names is None:
                good = era in gfp.plausible(value)
            else:
                good = not unknown and flags == gfp.of_names(names, era.first)
            if good:
                limits.append((era.first, era.last))
    if limits and value:
        by_mask = limits[0][0], limits[-1][1]
        kernel = inferred_from(report.fields, by_mask)
        if kernel.first < by_mask[1]:
            return kernel
    return inferred_from(report.fields)


def _flags(report: Report, kernel: Kernel, doubts: list[str]) -> tuple[Flags | None, str | None]:
    """The flags of the header's mask, and the mask as printed."""
    found = report.header.found if report.header else {}
    mask, names = found.get("mask"), found.get("names")
    if mask is None and names is None:
        return None, None
    printed = (mask or "") + (f"({names})" if names is not None else "")
    if names is not None:
        flags = gfp.of_names("".join(names.split()), kernel.first)
        if flags is not None and (names or mask == "0x0"):
            return flags, printed
        doubts.append("a name of the gfp mask is unknown")
    if mask is None or found.get("masked"):
        return None, printed
    value = int(mask, 16)
    eras = [era for era in gfp.eras() if era.first < kernel.last and kernel.first < era.last] or [
        gfp.era_of(kernel.first)
    ]
    likely = [era for era in eras if era in gfp.plausible(value)] or eras
    likely = [era for era in likely if _has_base(era.flags(value)[0], era.first)] or likely
    decoded = {era.flags(value)[0] for era in likely}
    if len({_meaning(flags) for flags in decoded}) > 1:
        doubts.append(f"mode {mask} has different flags on the kernels that it may be of")
    era = likely[-1]
    flags, unknown = era.flags(value)
    if unknown:
        doubts.append(f"mode {mask} has bits that its kernel does not")
    if names is None and not _has_base(flags, era.first):
        doubts.append(f"mode {mask} is no usual mask: it may be cut")
    return flags, printed


def _meaning(flags: Flags) -> Flags:
    """The flags that the watermark check goes by."""
    waits = {"DIRECT_RECLAIM"} if flags & {"WAIT", "DIRECT_RECLAIM"} else set()
    return frozenset(waits | flags & {"HIGH", "ATOMIC", "MOVABLE", "HIGHMEM", "DMA", "DMA32"})


def _has_base(flags: Flags, release: Release) -> bool:
    """Whether a mask has the flags of one of the usual names, such as GFP_KERNEL."""
    return any(
        name.startswith("GFP_") and not name.startswith("GFP_DMA")
        for name in gfp.names(flags, release)
    )


def _context(flags: Flags | None) -> str:
    """atomic, nowait, optional or waits, as in the report alloc.failures."""
    if flags is None:
        return "unknown"
    if not flags & {"WAIT", "DIRECT_RECLAIM"}:
        return "atomic" if flags & {"HIGH", "ATOMIC"} else "nowait"
    return "optional" if flags & {"NORETRY", "RETRY_MAYFAIL", "REPEAT"} else "waits"


def of_report(report: Report, kernel: str | None = None) -> Request:
    """The request of a report; `kernel` overrides the release of the message."""
    header = report.header
    found = header.found if header else {}
    kind = header.kind if header else ("oom" if report.is_oom else "unknown")
    release = _kernel(report, kernel)
    doubts: list[str] = list(report.mixed)
    flags, printed = _flags(report, release, doubts)
    order = found.get("order")
    request = Request(
        kind=kind,
        order=int(order) if order is not None else None,
        flags=flags,
        printed=printed,
        kernel=release,
        comm=report.comm or (found.get("comm") or "").strip() or None,
        doubts=doubts,
    )
    if request.order is None and kind in ("vmalloc", "slub"):
        request.order = 0  # single pages
    old = contradictions(release.first, report.fields) if report.release and not kernel else []
    doubts += [f"{release.words} does not print: {name}" for name in old]
    request.context = _context(flags)
    trace = "\n".join(report.trace)
    in_interrupt = _INTERRUPT.search(trace) is not None
    request.reclaims = _RECLAIM.search(trace) is not None and not in_interrupt
    kswapd = (request.comm or "").startswith("kswapd")
    spared = flags is None or "NOMEMALLOC" in flags
    if kswapd and not request.reclaims and not in_interrupt and not spared:
        doubts.append("the trace does not show whether kswapd or an interrupt asked")
    asker = (found.get("comm") or "").strip()
    if asker and report.comm and not asker.endswith(report.comm):
        doubts.append(f"the header is of {asker}, the process line of {report.comm}")
    if in_interrupt and request.context in ("waits", "optional"):
        doubts.append("a request that waits, below an interrupt: the trace may be of another one")
    mask = report.nodemask or found.get("nodemask")
    mems = report.mems or found.get("mems")
    if mask and mask != "(null)":
        request.nodes = _numbers(mask)
    elif mems and request.context != "atomic" and flags and "HARDWALL" in flags:
        request.nodes = _numbers(mems)
    return request


def asked(order: int, mask: str, kernel: Kernel) -> Request:
    """A request that nobody has made: `mask` is a number or names, joined by |.

    Raises ValueError for another text.
    """
    text = mask.strip()
    if re.fullmatch(r"0x[0-9a-fA-F]{1,8}", text):
        flags, unknown = gfp.era_of(kernel.first).flags(int(text, 16))
        if unknown:
            raise ValueError(f"{text} has bits that {kernel.words} does not: {unknown:#x}")
    else:
        found = gfp.of_names(text, kernel.first)
        if found is None:
            raise ValueError(f"'{text}' has a name that is no gfp flag")
        flags = found
    return Request("proc", order, flags, text, kernel, context=_context(flags))


def recorded(row: Mapping[str, Any], kernel: Kernel) -> Request:
    """The failed request of a tape: a row of the internal query explain.failures."""
    names = row["gfp"] or ""
    flags = frozenset(name for name in names.split("|") if name)
    return Request(
        "tape", row["page_order"], flags, names, kernel, context=_context(flags), comm=row["comm"]
    )


def layouts(state: State) -> list[tuple[str, ...]]:
    """The lists of zones that a kernel with this state may be built with, likeliest first."""
    if state.layout:
        return [state.layout]
    seen = {zone for _, zone in (*state.zones, *state.lists)}
    arrays = {z.name: z.reserve for z in state.zones.values() if z.reserve and z.reserve_whole}
    sizes = {len(pages) for pages in arrays.values()}
    both = {"DMA32", "HighMem"}  # old 32-bit kernels only
    never = {32: "DMA32", 64: "HighMem"}.get(state.word_bits or 0)
    high_pages = state.counters.get("highmem")
    found = []
    for layout in _LAYOUTS.get(max(sizes, default=0), []):
        if not seen <= set(layout) or (both <= set(layout) and not both <= seen):
            continue
        if never in layout and never not in seen:
            continue
        good = True
        last_growth = 0
        for name, pages in arrays.items():
            own = layout.index(name)
            good &= not any(pages[: own + 1])
            grown = [j for j in range(own + 1, len(pages)) if pages[j] > pages[j - 1]]
            last_growth = max(last_growth, grown[-1] if grown else 0)
        top = layout[last_growth] if arrays and last_growth else None
        if high_pages and top and top not in ("HighMem", "Movable"):
            good = good and bool({"Movable", "HighMem"} & seen)
        if high_pages == 0 and ("HighMem" in seen or top == "HighMem"):
            good = False
        if good:
            found.append(layout)
    return found

# SPDX-License-Identifier: Apache-2.0
"""The reports in a kernel log: one for each failure, OOM kill or memory state without a header.

Messages of different CPUs stand between each other. Where the log names the caller of each line,
each caller has its own report; elsewhere a report that got lines of another one says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pagetape.explaining.log_lines import Line
from pagetape.explaining.memory_state import LIST, RESERVE, ZONE, State, zone_of

_BEFORE = 80  # characters of a header before its words
_TRACE = 300  # lines that are stored of a stack trace
_WIDTH = 160  # characters of each
_OPEN = 64  # callers whose report is not at its end

_MASK = r"(?P<mask>0x[0-9a-fA-F]+)?(?P<masked>\*+)?\s?(?:\((?P<names>[^)=]{0,400})\))?"
_NODES = (
    r"(?:,? ?nodemask=(?P<nodemask>\(null\)|[\d,-]*\d))?"
    r"(?:,? ?cpuset=(?P<cpuset>[^, ]*))?(?:,? ?mems_allowed=(?P<mems>[\d,-]*\d))?"
)

# Of each kind of report: words of its header, and the header. A damaged header lacks groups.
_HEADERS = {
    "failure": (
        ("page allocation failure",),
        re.compile(
            r"(?:(?P<comm>[^:]{1,40}(?::[^: ]{1,20})?): )?page allocation failure(?P<sign>[.:])"
            rf"(?: order:(?P<order>\d{{1,2}})(?![\d*])(?:, mode: ?{_MASK}{_NODES})?)?"
        ),
    ),
    "stall": (
        ("page allocation stalls",),
        re.compile(
            r"(?:(?P<comm>[^:]{1,40}(?::[^: ]{1,20})?): )?page allocation stalls for (?P<ms>\d+)ms,"
            rf" order:(?P<order>\d{{1,2}})(?![\d*])(?:, mode: ?{_MASK}{_NODES})?"
        ),
    ),
    "oom": (
        ("oom-killer:",),
        re.compile(
            r"(?:(?P<comm>[^\]]{1,40}) invoked )?oom-killer:(?: ?gfp_mask="
            rf"{_MASK}(?:, nodemask=(?P<nodemask>\(null\)|[\d,-]*\d))?"
            r"(?:,? ?order=(?P<order>-?\d{1,2})(?=[, ]|oom|$))?)?"
        ),
    ),
    "vmalloc": (
        ("vmalloc",),
        re.compile(
            r"(?:(?P<comm>[^:]{1,40}(?::[^: ]{1,20})?): )?vmalloc(?:_node_range)? ?(?:error|:"
            r" allocation failure(?P<partly>, allocated \d+ of)?)?:? ?"
            r"(?:size (?P<size>\d+)|(?P<bytes>\d+) bytes),? ?"
            r"(?:page order (?P<order>\d{1,2})(?!\d), ?)?(?P<why>failed to allocate pages"
            r"|failed to map pages"
            rf"|vm_struct allocation failed)?(?:,? ?mode: ?{_MASK}{_NODES})?"
        ),
    ),
    "vmap": (
        ("vmap allocation", "vmalloc_node_range"),
        re.compile(
            r"(?P<why>vmap allocation for size (?P<size>\d+) failed|vmalloc_node_range for size \d+"
            r" failed: Address range)"
        ),
    ),
    "vmemmap": (
        ("vmemmap alloc",),
        re.compile(
            r"(?:(?P<comm>[^:]{1,40}(?::[^: ]{1,20})?): )?vmemmap alloc failure:"
            rf" order:(?P<order>\d{{1,2}})(?![\d*])(?:, mode: ?{_MASK}{_NODES})?"
        ),
    ),
    "cma": (
        ("cma_alloc",),
        re.compile(
            r"cma_alloc: .{0,60}?alloc failed, req-size: (?P<size>\d+) pages, ret: (?P<ret>-\d+)"
        ),
    ),
    "slub": (
        ("Unable to allocate",),
        re.compile(rf"SLU?[AU]B: Unable to allocate memory on .{{0,60}}?\(?gfp={_MASK}"),
    ),
    "charge": (("Memory cgroup out of",), re.compile(r"(?P<why>Memory cgroup out of memory:)")),
    "killed": (("Out of memory",), re.compile(r"(?P<why>Out of memory(?: and no killable|:| \())")),
}
# Reports that never have zones.
_STATELESS = ("vmap", "cma", "slub", "charge", "killed")
# Headers that belong to a report that is already there.
_TAILS = ("slub", "charge", "killed")

_SUBJECT = re.compile(r"(?:Subject|Re|RE|Fwd|Title|In-Reply-To):|# ")
_TITLES = ("Mem-Info:", "Mem-info:")
_PRELUDE = re.compile(r"vmalloc: allocation failure: \d+ bytes")  # up to 5.12
_COUNTERS = re.compile(r"(?<!\w)(free|free_cma|free_pcp|bounce|unstable|shmem):(\d+)(?![\dkK])")
_HIGHMEM = re.compile(r"^(\d+) pages HighMem(/MovableOnly)?")
# A node that has memory: the lines of a node without any are all 0.
_NODE = re.compile(
    r"Node (\d+) (?:active_anon:.*:[1-9]\d*kB|active_anon:[1-9]|hugepages_total=[1-9])"
)
# The first line that has one of these gives the report its value.
_FIRST = {
    "release": re.compile(
        r"(?:[Tt]ainted(?:: [A-Z ]*)?|Linux version)\s+(\d+\.\d+(?:\.\d+)?[\w.+~-]*)(?=\s|$)"
    ),
    "cache": re.compile(r"cache: ([^,]{1,80}), object size: ?\d+"),
    "mems": re.compile(r"cpuset=\S+?,? ?mems_allowed=(\d[\d,-]*)"),
    "nodemask": re.compile(r"nodemask=(\(null\)|[\d,-]*\d)"),
}
# An address of 32 bits, or of 64.
_ADDRESS = re.compile(
    r"(?:\[<?|NIP:? +|LR:? +|0x)([0-9a-f]{8})(?:>?\]|\b)|\b[0-9a-f]{16}\b|\bRIP: |\bR1[0-5]: "
)
_COMM = re.compile(r"(?:Comm|comm): (.{1,20}?) (?:Not t|T|Kdump)ainted")
_KILLED = re.compile(r"Killed process (\d+)(?:, UID \d+,)? ?\((.{1,40}?)\)(?=,|$| total-vm)")
_RSS = re.compile(r"\b(anon|file|shmem)-rss:(\d+)kB")
_MEMCG = re.compile(
    r"mem_cgroup_out_of_memory|mem_cgroup_oom|CONSTRAINT_MEMCG|Memory cgroup out of memory"
    r"|Memory cgroup stats for|^memory: usage \d+kB, limit|oom_memcg="
    r"|killed as a result of limit of /"
)
# A report is what one of its lines shows.
_IS = {
    "is_memcg": _MEMCG,
    "is_global": re.compile(r"CONSTRAINT_(NONE|CPUSET|MEMORY_POLICY)|,global_oom|limit of host"),
    "is_oom": re.compile(r"out_of_memory|oom_kill_process|^Tasks state|^oom-kill:|Out of memory"),
}
# A line without any of these says nothing about memory.
_WORDS = (
    *("free", "lowmem_reserve", "protection", "Mem-", "oom", "emory", "alloc", "active_", "pages"),
    *("ainted", "callbacks", "messages dropped", "cache: ", "cpuset", "Node ", "kB", "unevictable"),
    *("mapped:", "slab_", "Tasks state", "killed as", "Killed process", "Linux version"),
)
_SUPPRESSED = re.compile(r"(?:warn_alloc|__ratelimit|show_mem|\w+): (\d+) callbacks suppressed")
_DROPPED = re.compile(r"\*\* (\d+) printk messages dropped")

# Fields that show the release: the name in schemas/messages.toml, and what shows it.
_FIELDS = {
    "header with a dot": re.compile(r"page allocation failure\. order"),
    "header with a colon": re.compile(r"page allocation failure: order"),
    "names of gfp flags": re.compile(r"(?:mode:|gfp_mask=)0x[0-9a-f*]+\([A-Z_]"),
    "mask without names": re.compile(r"(?:failure.*mode:|oom-killer: gfp_mask=)0x[0-9a-f]+(?:,|$)"),
    "nodemask in the header": re.compile(r"(?:failure|stalls).*nodemask="),
    "cpuset in the header": re.compile(r"failure: order.*nodemask=\S+,cpuset="),
    "UID in the process line": re.compile(r"^CPU: \d+ UID: \d+ PID:"),
    "migratetype R": re.compile(r"\*\d+kB \([A-Z]*R"),
    "migratetype H": re.compile(r"\*\d+kB \([A-Z]*H"),
    "managed": re.compile(r"\bmanaged:\d"),
    "free_cma": re.compile(r"\bfree_cma:\d"),
    "free_pcp": re.compile(r"\bfree_pcp:\d"),
    "pages_scanned of a zone": re.compile(r" free:\d+kB .*pages_scanned:"),
    "writepending": re.compile(r"\bwritepending:"),
    "reserved_highatomic": re.compile(r"reserved_highatomic:"),
    "boost": re.compile(r" free:\d+kB boost:"),
    "high without reserved_highatomic": re.compile(r" free:\d+kB .* high:\d+kB active"),
    "free without boost": re.compile(r" free:\d+kB min:"),
    "free_highatomic": re.compile(r"free_highatomic:"),
    "zspages": re.compile(r"\bzspages:"),
    "sec_pagetables": re.compile(r"sec_pagetables:"),
    "kernel_misc_reclaimable": re.compile(r"kernel_misc_reclaimable:"),
    "unstable": re.compile(r"\bunstable:\d+ ?(?:$|free|kB|slab)"),
    "gpu_active": re.compile(r"gpu_active:"),
}


@dataclass(slots=True)
class Header:
    """The first line of a report: its kind, and the groups that its pattern found."""

    kind: str
    found: dict[str, str | None]


@dataclass(slots=True)
class Report:
    """All that a log shows of one failure."""

    line: int  # of its beginning
    header: Header | None = None
    state: State = field(default_factory=State)
    trace: list[str] = field(default_factory=list)
    release: str | None = None
    comm: str | None = None
    killed: dict[str, Any] | None = None  # the process that the OOM killer ended
    fields: set[str] = field(default_factory=set)
    is_memcg: bool = False
    is_global: bool = False
    is_oom: bool = False
    word_bits: int | None = None  # of the machine, by the addresses of a trace
    cache: str | None = None
    nodemask: str | None = None
    mems: str | None = None
    prelude: bool = False  # vmalloc failed before it asked for pages
    suppressed: int = 0  # failures that the kernel left out before it
    mixed: list[str] = field(default_factory=list)  # why lines may be of another report
    last_line: int = 0

    @property
    def lacks_zones(self) -> bool:
        """Whether zones of this report may still come."""
        if self.state.zones or self.is_memcg:
            return False
        return self.header.kind not in _STATELESS if self.header else self.state.begun

    def is_title_of(self, header: Header) -> bool:
        """Whether it is no more than a copy of a header that follows."""
        if self.state.begun or self.comm or self.header is None:
            return False
        return self.header == header or (self.header.kind, header.kind) == ("vmap", "vmalloc")


@dataclass(slots=True)
class Log:
    """What a log shows apart from its reports."""

    lines: int = 0
    suppressed: int = 0
    dropped: int = 0


def _header(text: str) -> Header | None:
    """The first header in a line."""
    found, first = None, len(text)
    for kind, (words, pattern) in _HEADERS.items():
        at = next((text.find(word) for word in words if word in text), -1)
        one = pattern.search(text, max(at - _BEFORE, 0)) if at >= 0 else None
        if one is None or one.start() >= first:
            continue
        if kind != "vmalloc" or one["why"] or one["mask"]:
            found, first = Header(kind, one.groupdict()), one.start()
    return found


class _Caller:
    """The report of one caller, while its lines come."""

    def __init__(self, give: Callable[[Report], None]) -> None:
        self.report: Report | None = None
        self._give = give
        self._prelude = False
        self._suppressed = 0

    def end(self) -> None:
        if self.report:
            self._give(self.report)

    def _begin(self, line: int, header: Header | None) -> Report:
        before = self.report
        new = Report(line, header, prelude=self._prelude, suppressed=self._suppressed)
        self._prelude, self._suppressed = False, 0
        if before and header and before.is_title_of(header):
            before = None  # somebody wrote the header above the message, or vmalloc has two lines
        if before and before.lacks_zones:
            new.mixed.append("the report before it has no zones: these may be of that one")
        if before:
            self._give(before)
        self.report = new
        return new

    def take(self, line: Line) -> None:
        """One message of this caller."""
        text = line.text
        report = self.report
        has_trace = report is None or report.state.begun or len(report.trace) >= _TRACE
        if has_trace and not any(word in text for word in _WORDS):
            return
        if _PRELUDE.search(text):
            self._prelude = True
        if found := _SUPPRESSED.search(text):
            self._suppressed = int(found[1])
        header = None if _SUBJECT.match(text) else _header(text)
        if header:
            self._take_header(line, header)
        report = self._take_state(line)
        if report is None:
            return
        report.last_line = line.number
        self._take_rest(report, text, header is not None)

    def _take_header(self, line: Line, header: Header) -> None:
        report = self.report
        if header.kind in _TAILS and report:
            return
        if header.kind == "vmap" and report and line.number - report.last_line < 3:
            return
        self._begin(line.number, header)

    def _take_state(self, line: Line) -> Report | None:
        """Zones, reserves and free lists of a line; the report that they are of."""
        text = line.text
        items = sorted(
            (found.start(), name, found)
            for name, pattern in (("zone", ZONE), ("list", LIST), ("reserve", RESERVE))
            for found in pattern.finditer(text)
        )
        is_title = text.startswith(_TITLES)
        if is_title and self.report:
            if self.report.state.zones:
                before = self.report
                new = self._begin(line.number, None)
                if before.header:
                    reason = "a memory state without a header stands next to it"
                    before.mixed.append(reason)
                    new.mixed.append(reason)
            elif self.report.state.begun:
                self.report.mixed.append("two memory states stand together")
        for number, (_, name, found) in enumerate(items):
            report = self.report
            if name == "zone":
                end = items[number + 1][0] if number + 1 < len(items) else len(text)
                zone = zone_of(found, text[found.end() : end])
                if report is None or report.state.is_next(zone):
                    report = self._begin(line.number, None)
                report.state.add_zone(zone)
                continue
            report = report or self._begin(line.number, None)
            if name == "list":
                report.state.add_list(found)
            else:
                report.state.add_reserve(found)
        if self.report is None and (is_title or _MEMCG.search(text) or _counters(text)):
            self._begin(line.number, None)
        return self.report

    def _take_rest(self, report: Report, text: str, is_header: bool) -> None:
        """What a line says beside the zones."""
        self._take_machine(report, text)
        self._take_task(report, text)
        report.fields |= {name for name, pattern in _FIELDS.items() if pattern.search(text)}
        for name, pattern in _FIRST.items():
            if not getattr(report, name) and (found := pattern.search(text)):
                setattr(report, name, found[1])
        for name, pattern in _IS.items():
            if pattern.search(text):
                setattr(report, name, True)
        if not is_header and not report.state.begun and len(report.trace) < _TRACE:
            report.trace.append(text[:_WIDTH])
            if found := _ADDRESS.search(text):
                report.word_bits = report.word_bits or (32 if found[1] else 64)

    def _take_machine(self, report: Report, text: str) -> None:
        """Counters of the whole machine, and its nodes."""
        state = report.state
        if text.startswith(_TITLES):
            state.begun = True
        for name, value in _counters(text).items():
            if state.counters.setdefault(name, value) != value:
                report.mixed.append(f"two counters `{name}` of the machine differ")
        if found := _HIGHMEM.search(text):
            state.counters.setdefault("highmem", int(found[1]))
        if found := _NODE.search(text):
            state.nodes.add(int(found[1]))

    def _take_task(self, report: Report, text: str) -> None:
        if found := _COMM.search(text):
            is_late = report.state.begun and not report.state.zones
            if is_late or report.comm not in (None, found[1]):
                report.mixed.append("process lines of two tasks stand together")
            report.comm = report.comm or found[1]
        if found := _KILLED.search(text):
            held = {f"{name}_kb": int(kb) for name, kb in _RSS.findall(text)}
            report.killed = report.killed or {"pid": int(found[1]), "task": found[2]} | held


def _counters(text: str) -> dict[str, int]:
    """The counters of the whole machine in a line, in pages."""
    if "kB" in text or not re.search(
        r"(?:active_|isolated_|slab|free_pcp|bounce|free):?\w*:\d", text
    ):
        return {}
    return {name: int(value) for name, value in _COUNTERS.findall(text)}


def reports(lines: Iterable[Line], log: Log) -> Iterator[Report]:
    """The reports of a log, each when its lines have ended; `log` gets the counts."""
    done: list[Report] = []
    callers: dict[str, _Caller] = {}
    for line in lines:
        log.lines += 1
        if "callbacks" in line.text and (found := _SUPPRESSED.search(line.text)):
            log.suppressed += int(found[1])
        if "printk" in line.text and (found := _DROPPED.search(line.text)):
            log.dropped += int(found[1])
        caller = callers.pop(line.caller, None) or _Caller(done.append)
        callers[line.caller] = caller  # the newest is the last
        caller.take(line)
        if len(callers) > _OPEN:
            callers.pop(next(iter(callers))).end()
        yield from done
        done.clear()
    for caller in callers.values():
        caller.end()
    yield from done

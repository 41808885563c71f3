# SPDX-License-Identifier: Apache-2.0
"""Memory state from /proc, live or from copies of its files (proc_copies.py).

All files are optional: facts and rows lack the contents of absent files, and of lines and figures
that no kernel prints. Of two lines about the same, the first counts. Copies are checked first.

    proc = procfs.live()                    # or proc_copies.saved(directory)
    proc.facts["migratetypes"]              # ["Unmovable", "Movable", ...]
    for number, stage in enumerate(proc.stages):
        proc.rows(stage, number, ts)        # {"zone": [...], "pcp": [...], ...}
        proc.blocks(stage, number, ts)      # {"block_guess": ..., "pageblock": ...}
"""

import gzip
import math
import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from pagetape import cma, kpageflags, machine_id
from pagetape.ring_stats import parse_ring_stats
from pagetape.schemas import MIGRATETYPES, TABLES, ZONES

Row = dict[str, Any]

_LINES = re.MULTILINE | re.ASCII

# The columns in which two rows of one snapshot differ.
_KEYS = ("name", "node", "zone", "cpu", "migratetype", "page_order")

# Configuration options that change the page allocator, without CONFIG_.
CONFIG = (
    "ARCH_FORCE_MAX_ORDER",
    "BALLOON_COMPACTION",
    "CMA",
    "COMPACTION",
    "DEFERRED_STRUCT_PAGE_INIT",
    "FORCE_MAX_ZONEORDER",
    "HIGHMEM",
    "HUGETLB_PAGE",
    "HUGETLB_PAGE_SIZE_VARIABLE",
    "HZ",
    "MEMCG",
    "MEMORY_HOTPLUG",
    "MEMORY_ISOLATION",
    "MIGRATION",
    "NR_CPUS",
    "NUMA",
    "NUMA_BALANCING",
    "PAGE_BLOCK_MAX_ORDER",
    "PAGE_BLOCK_ORDER",
    "PAGE_REPORTING",
    "PCP_BATCH_SCALE_MAX",
    "PREEMPT",
    "PREEMPT_DYNAMIC",
    "PREEMPT_LAZY",
    "PREEMPT_NONE",
    "PREEMPT_RT",
    "PREEMPT_VOLUNTARY",
    "SHUFFLE_PAGE_ALLOCATOR",
    "SPARSEMEM_VMEMMAP",
    "TRANSPARENT_HUGEPAGE",
    "UNACCEPTED_MEMORY",
    "ZONE_DEVICE",
    "ZONE_DMA",
    "ZONE_DMA32",
)

# Bounds of what a kernel prints. NODES_SHIFT is at most 10, and MAX_PAGE_ORDER at most 15.
_NODES = 1 << 10
_CPUS = 1 << 16
_ORDERS = 21  # as kpageflags.c reads them
_MIGRATETYPES = 16
_PAGES = 1 << 52  # of physical memory
_PAGE_SIZES = range(12, 21)  # as powers of two
_DISTANCE = 255

_LONGEST_FACT = 4096  # characters, as of a command line of the kernel
_MOST_SYSCTLS = 1000

# A number of at most 16 digits: no count of a machine has more, and sums stay within 64 bits.
_N = r"\d{1,16}"
_ID = r"\d{1,5}"  # of a node or a CPU
_NUMBER = re.compile(rf"\s*-?{_N}\s*", re.ASCII)

# Sysctls of vm for which a read has an effect: stat_refresh makes every CPU fold its counters
# and drain its lists (vmstat_refresh); lowmem_reserve_ratio recomputes every zone's reserves
# (lowmem_reserve_ratio_sysctl_handler, 6.18).
_ACTING = {"stat_refresh", "lowmem_reserve_ratio"}

# Sysctls outside vm that change reclaim. numa_balancing & 2 is memory tiering.
SYSCTLS_BESIDE_VM = ("kernel.numa_balancing",)

# Settings of huge pages: of faults, and whether khugepaged may reclaim and compact. They are no
# sysctls, but are stored as such.
_HUGE_PAGES = Path("sys/kernel/mm/transparent_hugepage")
HUGE_PAGES = {
    "transparent_hugepage.enabled": _HUGE_PAGES / "enabled",
    "transparent_hugepage.defrag": _HUGE_PAGES / "defrag",
    "transparent_hugepage.khugepaged.defrag": _HUGE_PAGES / "khugepaged" / "defrag",
}


def is_of_memory(sysctl: str) -> bool:
    """Whether a tape holds the sysctl."""
    return sysctl.startswith("vm.") or sysctl in SYSCTLS_BESIDE_VM or sysctl in HUGE_PAGES


class Timed(NamedTuple):
    """The text of a file, with when it was read: trace clock right after and right before."""

    text: str
    ts: int
    began: int | None


class Proc:
    """The /proc files of one machine, at one or more stages of a recording."""

    stages: tuple[str, ...]  # in order; arguments of rows() and blocks()

    def text(self, name: str, stage: str = "") -> str | None:
        """The text of /proc/NAME at `stage` (or at any stage); None if unknown."""
        data = self._read(name, stage)
        return None if data is None else data.decode("utf-8", "replace")

    def _read(self, name: str, stage: str) -> bytes | None:
        raise NotImplementedError

    @contextmanager
    def kpageflags(self, stage: str, pages: int) -> Iterator[Path | None]:
        """A file with the flags of the first `pages` pages, as far as they are known."""
        raise NotImplementedError

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The known facts about the machine, under the keys of a tape's facts."""
        found = {
            "kernel": _release(self.text("version")),
            "version": _stripped(self.text("version")),
            "page_size": self._page_size(),
            "nodes": self._nodes(),
            "sysctls": self.sysctls(),
            "boot_id": _stripped(self.text("boot_id")),
            "host": _stripped(self.text("hostname")),
            "cmdline": _stripped(self.text("cmdline")),
            **machine_id.facts(self.text("machine-id")),
            "config": self._config(),
            **_shape(self.text("pagetypeinfo") or "", self.text("buddyinfo") or ""),
        }
        return {key: value for key, value in found.items() if value not in (None, [], {})}

    def rows(self, stage: str, snapshot: int, ts: int = 0) -> dict[str, list[Row]]:
        """Rows of the tables zone, free_area, block_count, pcp and vmstat.

        Rows of saved files have the time `ts`, those of the live /proc the time of their file.
        """
        files = ("zoneinfo", "buddyinfo", "pagetypeinfo", "vmstat")
        of_zones, of_free, of_types, of_vmstat = (self._timed(f, stage, ts) for f in files)
        zones, pcps = parse_zoneinfo(of_zones.text)
        areas, counts = parse_pagetypeinfo(of_types.text)
        tables = {
            "zone": (of_zones, zones),
            "free_area": (of_types, areas) if areas else (of_free, parse_buddyinfo(of_free.text)),
            "block_count": (of_types, counts),
            "pcp": (of_zones, pcps),
            "vmstat": (of_vmstat, parse_vmstat(of_vmstat.text)),
        }
        for file, rows in tables.values():
            for row in rows:
                row.update(snapshot=snapshot, ts=file.ts, began=file.began)
        return {name: _storable(name, rows) for name, (_, rows) in tables.items()}

    def _timed(self, name: str, stage: str, ts: int) -> Timed:
        return Timed(self.text(name, stage) or "", ts, None)

    def rings(self) -> list[Row]:
        """Columns of the table ring, from copies of tracefs' per_cpu/cpuN/stats.

        They are NAME ring-stats.cpuN, or one file ring-stats with all CPUs in order.
        """
        whole = self.text("ring-stats")
        if whole is not None:
            return parse_ring_stats(whole)
        rows: list[Row] = []
        while (text := self.text(f"ring-stats.cpu{len(rows)}")) is not None:
            rows += [row | {"cpu": len(rows)} for row in parse_ring_stats(text)[:1]]
        return rows

    def blocks(self, stage: str, snapshot: int, ts: int = 0) -> dict[str, pa.RecordBatch]:
        """Tables block_guess and pageblock; empty if kpageflags was not readable."""
        zones, _ = parse_zoneinfo(self.text("zoneinfo", stage) or "")
        spans = [(z["node"], ZONES.index(z["zone"]), z["start_pfn"], z["spanned"]) for z in zones]
        pageblock_order, nr_orders = map(self.facts.get, ("pageblock_order", "nr_orders"))
        if pageblock_order is None or nr_orders is None or not spans:
            return {}
        with self.kpageflags(stage, max(start + spanned for _, _, start, spanned in spans)) as path:
            if path is None:
                return {}
            free, pageblocks = kpageflags.read(path, spans, pageblock_order, nr_orders - 1)
        known = parse_pagetypeinfo(self.text("pagetypeinfo", stage) or "")
        return {
            "block_guess": _at(free, "block_guess", snapshot, ts),
            "pageblock": _at(
                cma.marked(pageblocks, free, *known, pageblock_order), "pageblock", snapshot, ts
            ),
        }

    def _page_size(self) -> int | None:
        """From MemTotal, which is the sum of all managed pages."""
        total = re.search(rf"^MemTotal:\s*({_N}) kB", self.text("meminfo") or "", _LINES)
        zones, _ = parse_zoneinfo(self.text("zoneinfo") or "")
        managed = sum(zone["managed"] for zone in zones)
        if total is None or not managed or not int(total[1]):
            return None
        shift = round(math.log2(int(total[1]) * 1024 / managed))
        return 1 << shift if shift in _PAGE_SIZES else None

    def _nodes(self) -> list[dict[str, Any]]:
        known: dict[int, dict[str, Any]] = {}
        taken: set[int] = set()
        for n, cpus, distance in re.findall(
            rf"^node({_ID}) cpus (\S*) distance ({_ID}(?: {_ID})*) *$",
            self.text("nodes") or "",
            _LINES,
        ):
            node = int(n)
            if node < _NODES and node not in known:
                own = [cpu for cpu in parse_list(cpus) if cpu not in taken]
                taken.update(own)  # a CPU is on one node: the first that names it
                known[node] = {"id": node, "cpus": own, "distance": _distances(distance)}
        if known:
            return list(known.values())
        zones, _ = parse_zoneinfo(self.text("zoneinfo") or "")
        return [{"id": n, "cpus": [], "distance": []} for n in sorted({z["node"] for z in zones})]

    def sysctls(self) -> dict[str, str]:
        """{"vm.swappiness": "60"}, all others of vm and those of SYSCTLS_BESIDE_VM."""
        text = self.text("sysctls") or ""
        lines = re.finditer(r"^([a-z]+\.\S{1,100}) = (.{0,1000})$", text, _LINES)
        known = (line for line in lines if is_of_memory(line[1]))
        return {line[1]: line[2] for line in islice(known, _MOST_SYSCTLS)}

    def _config(self) -> dict[str, str]:
        lines = re.finditer(r"^CONFIG_(\w+)=(.{0,1000})$", self.text("config") or "", _LINES)
        return {line[1]: line[2] for line in lines if line[1] in CONFIG}


class _Live(Proc):
    stages = ("now",)

    _PLACES: ClassVar = {
        "boot_id": ("/proc/sys/kernel/random/boot_id",),
        "hostname": ("/proc/sys/kernel/hostname",),
        "machine-id": ("/etc/machine-id", "/var/lib/dbus/machine-id"),
        "config": ("/proc/config.gz", f"/boot/config-{os.uname().release}"),
    }

    def _read(self, name: str, stage: str) -> bytes | None:  # noqa: ARG002
        for place in self._PLACES.get(name, (f"/proc/{name}",)):
            try:
                data = Path(place).read_bytes()
            except OSError:  # not on this kernel, or not for this user
                continue
            return gzip.decompress(data) if place.endswith(".gz") else data
        return None

    def _timed(self, name: str, stage: str, ts: int) -> Timed:  # noqa: ARG002
        began = time.monotonic_ns()
        text = self.text(name, stage) or ""
        return Timed(text, time.monotonic_ns(), began)

    @contextmanager
    def kpageflags(self, stage: str, pages: int) -> Iterator[Path | None]:  # noqa: ARG002
        path = kpageflags.LIVE
        yield path if os.access(path, os.R_OK, effective_ids=True) else None

    @cached_property
    def facts(self) -> dict[str, Any]:
        return super().facts | {"arch": os.uname().machine}

    def _page_size(self) -> int:
        return os.sysconf("SC_PAGE_SIZE")

    def _nodes(self) -> list[dict[str, Any]]:
        nodes = []
        for path in Path("/sys/devices/system/node").glob("node[0-9]*"):
            distance = (path / "distance").read_text().split()
            nodes.append(
                {
                    "id": int(path.name.removeprefix("node")),
                    "cpus": parse_list((path / "cpulist").read_text().strip()),
                    "distance": [int(d) for d in distance],
                }
            )
        if not nodes:  # a kernel without NUMA
            online = Path("/sys/devices/system/cpu/online").read_text().strip()
            nodes = [{"id": 0, "cpus": parse_list(online), "distance": [10]}]
        return sorted(nodes, key=lambda node: int(node["id"]))

    def sysctls(self) -> dict[str, str]:
        found = {}
        places = {f"vm.{path.name}": path for path in sorted(Path("/proc/sys/vm").iterdir())}
        places |= {name: Path("/proc/sys", *name.split(".")) for name in SYSCTLS_BESIDE_VM}
        places |= {name: Path("/") / path for name, path in HUGE_PAGES.items()}
        for name, path in places.items():
            if path.name not in _ACTING:
                with suppress(OSError):  # write-only, such as compact_memory, or not on this kernel
                    text = path.read_text()
                    found[name] = parse_choice(text)[1] or text.strip()
        return found


def live() -> Proc:
    """The live /proc of this machine: every call reads it again, except for the facts."""
    return _Live()


def parse_zoneinfo(text: str) -> tuple[list[Row], list[Row]]:
    """Rows of `zone` and `pcp` for the zones that have pages.

    The watermarks are printed with the boost added (min_wmark_pages() and its
    like in mm/vmstat.c); it is subtracted if the kernel prints the boost.
    """
    zones: list[Row] = []
    pcps: list[Row] = []
    seen: set[tuple[int, str]] = set()
    sections = re.split(rf"^Node ({_ID}), zone\s+(\S+)\n", text, flags=_LINES)[1:]
    heads = [(int(n), name.upper()) for n, name in zip(sections[::3], sections[1::3], strict=True)]
    of_node: dict[int, list[str]] = {}  # every zone of the kernel is printed, in its own order
    for n, name in heads:
        of_node.setdefault(n, []).append(name)
    for (node, zone), body in zip(heads, sections[2::3], strict=True):
        if zone not in ZONES or (node, zone) in seen or node >= _NODES:
            continue
        seen.add((node, zone))
        state, _, pagesets = body.partition("\n  pagesets\n")
        figures = _zone_state(state, pagesets, of_node[node])
        end = figures["start_pfn"] + figures["spanned"]
        if not figures["present"] or end > _PAGES or min(filter(None, figures.values())) < 0:
            continue
        zones.append({"node": node, "zone": zone, **figures})
        pcps += [{"node": node, "zone": zone, **pcp} for pcp in _pagesets(pagesets)]
    return zones, pcps


def _pagesets(text: str) -> Iterable[Row]:
    """The per-CPU lists of one zone, each CPU once."""
    found: dict[int, Row] = {}
    columns = ("count", "high", "batch", "high_min", "high_max")
    for cpu, fields in re.findall(rf"^ +cpu: ({_ID})\n((?: {{6,}}\w+: +{_N}\n)+)", text, _LINES):
        numbers = _numbers(fields)
        if int(cpu) < _CPUS:
            found.setdefault(int(cpu), {"cpu": int(cpu), **{c: numbers.get(c) for c in columns}})
    return found.values()


def _zone_state(state: str, pagesets: str, names: list[str]) -> Row:
    """The columns of `zone` from its section; `names` of the node's zones."""
    n = _numbers(state)
    tail = _numbers(pagesets)  # without the per-CPU numbers
    boost = n.get("boost", 0)
    reserve = dict.fromkeys(ZONES, 0)
    if protection := re.search(rf"protection: \(({_N}(?:, {_N})*)\)", state, _LINES):
        pages = [int(number) for number in protection[1].split(",")]
        reserve |= {name: nr for name, nr in zip(names, pages, strict=False) if name in ZONES}
    return {
        "start_pfn": tail.get("start_pfn", n.get("start_pfn", 0)),
        "spanned": n.get("spanned", 0),
        "present": n.get("present", 0),
        "managed": n.get("managed", n.get("present", 0)),
        "free": n.get("pages free", 0),
        # The boost may change while the kernel prints.
        "wmark_min": max(n.get("min", 0) - boost, 0),
        "wmark_low": max(n.get("low", 0) - boost, 0),
        "wmark_high": max(n.get("high", 0) - boost, 0),
        "wmark_promo": max(n["promo"] - boost, 0) if "promo" in n else None,
        "boost": n.get("boost"),
        "nr_reserved_highatomic": tail.get("reserved_highatomic"),
        "nr_free_highatomic": tail.get("free_highatomic"),
        "nr_free_cma": n.get("nr_free_cma"),
        "stat_threshold": tail.get("vm stats threshold"),
        **{f"lowmem_reserve_{name.lower()}": nr for name, nr in reserve.items()},
    }


def _numbers(text: str) -> dict[str, int]:
    """{"pages free": 3808, "min": 25} from lines of a name, maybe a colon, and a number."""
    found = re.findall(rf"^ *([a-z]\w*(?: [a-z]+)*):? +(-?{_N}) *$", text, _LINES)
    return {name: int(number) for name, number in found}


def parse_number(text: str) -> int | None:
    """The number of at most 16 digits that the text consists of, or None."""
    return int(text) if _NUMBER.fullmatch(text) else None


def parse_choice(text: str) -> tuple[int | None, str | None]:
    """The word in brackets among words, as in "always [madvise] never", and its place from 0."""
    for place, word in enumerate(text.split()):
        if chosen := re.fullmatch(r"\[(\S+)\]", word):
            return place, chosen[1]
    return None, None


def parse_buddyinfo(text: str) -> list[Row]:
    """Rows of `free_area` without migratetypes."""
    return [
        {
            "node": int(node),
            "zone": zone.upper(),
            "page_order": order,
            "nr_free": int(nr),
            "capped": False,
        }
        for node, zone, counts in re.findall(
            rf"^Node ({_ID}), zone +(\S+)((?: +{_N}){{1,{_ORDERS}}}) *$", text, _LINES
        )
        if zone.upper() in ZONES
        for order, nr in enumerate(counts.split())
    ]


def parse_pagetypeinfo(text: str) -> tuple[list[Row], list[Row]]:
    """Rows of `free_area` and `block_count`; types that no tape knows are left out."""
    areas = [
        {
            "node": int(node),
            "zone": zone.upper(),
            "migratetype": migratetype.upper(),
            "page_order": order,
            "nr_free": int(nr.removeprefix(">")),
            "capped": nr.startswith(">"),
        }
        for node, zone, migratetype, counts in re.findall(
            rf"^Node +({_ID}), zone +(\S+), type +(\S+)((?: +>?{_N}){{1,{_ORDERS}}}) *$",
            text,
            _LINES,
        )
        if zone.upper() in ZONES and migratetype.upper() in MIGRATETYPES
        for order, nr in enumerate(counts.split())
    ]
    counts = [
        {
            "node": int(node),
            "zone": zone.upper(),
            "migratetype": migratetype.upper(),
            "nr_blocks": int(nr),
        }
        for node, zone, numbers in re.findall(
            rf"^Node ({_ID}), zone +(\S+)((?: +{_N}){{1,{_MIGRATETYPES}}}) *$", text, _LINES
        )
        if zone.upper() in ZONES
        for migratetype, nr in zip(_migratetypes(text), numbers.split(), strict=False)
        if migratetype.upper() in MIGRATETYPES
    ]
    return areas, counts


def parse_vmstat(text: str) -> list[Row]:
    """Rows of `vmstat`."""
    return [
        {"name": name, "value": int(value)}
        for name, value in re.findall(rf"^(\w{{1,100}}) (-?{_N})$", text, _LINES)
    ]


def _migratetypes(pagetypeinfo: str) -> list[str]:
    """The kernel's names of migratetypes, in the order of its numbers."""
    heading = re.search(r"^Number of blocks type +(.*)$", pagetypeinfo, _LINES)
    names = heading[1].split() if heading else []
    return names if len(names) <= _MIGRATETYPES else []


def _shape(pagetypeinfo: str, buddyinfo: str) -> dict[str, Any]:
    """pageblock_order, nr_orders and migratetypes, if the text contains them."""
    found: dict[str, Any] = {"migratetypes": _migratetypes(pagetypeinfo)}
    order = re.search(r"^Page block order: (\d{1,2})$", pagetypeinfo, _LINES)
    if order and int(order[1]) < _ORDERS:
        found["pageblock_order"] = int(order[1])
    areas = parse_pagetypeinfo(pagetypeinfo)[0] or parse_buddyinfo(buddyinfo)
    if areas:
        found["nr_orders"] = 1 + max(area["page_order"] for area in areas)
    return found


def _release(version: str | None) -> str | None:
    match = re.match(r"Linux version (\S{1,200})", version or "")
    return match[1] if match else None


def _stripped(text: str | None) -> str | None:
    return None if text is None else text.strip()[:_LONGEST_FACT]


def parse_list(text: str) -> list[int]:
    """[0, 1, 2, 5] from "0-2,5"; without the parts of another form, and numbers above 65535."""
    found: dict[int, None] = {}
    for first, last in re.findall(rf"(?<![^,])({_ID})(?:-({_ID}))?(?![^,])", text, re.ASCII):
        found |= dict.fromkeys(range(int(first), min(int(last or first) + 1, _CPUS)))
    return list(found)


def _distances(text: str) -> list[int]:
    """[10, 20] from "10 20"; empty if one is no distance."""
    found = [int(distance) for distance in text.split()]
    return found if max(found) <= _DISTANCE and len(found) <= _NODES else []


def _storable(name: str, rows: list[Row]) -> list[Row]:
    """The rows that the table can hold, with null for a value that a nullable column cannot.

    Rows of the same zone, CPU, order and so on are of different numbers: the first one counts.
    """
    columns = TABLES[name].columns
    found: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        stored = {
            c.name: row[c.name] if c.fits(row[c.name]) else None for c in columns if c.name in row
        }
        if all(c.null or stored.get(c.name) is not None for c in columns):
            found.setdefault(tuple(map(stored.get, _KEYS)), stored)
    return list(found.values())


def _at(batch: pa.RecordBatch, name: str, snapshot: int, ts: int) -> pa.RecordBatch:
    """The batch with its snapshot number and time."""
    schema = TABLES[name].arrow
    columns = {field.name: batch.column(i) for i, field in enumerate(batch.schema)}
    columns["snapshot"] = pa.repeat(pa.scalar(snapshot, pa.uint16()), batch.num_rows)
    columns["ts"] = pa.repeat(pa.scalar(ts, pa.uint64()), batch.num_rows)
    return pa.RecordBatch.from_arrays([columns[field.name] for field in schema], schema=schema)

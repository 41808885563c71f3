# SPDX-License-Identifier: Apache-2.0
"""Whether copies of /proc files can be of one machine.

The files are read one after the other, so their figures may differ. Figures that no instant of one
machine has are a contradiction: other zones, another number of orders, counters that fall.

    proc_agree.check(copies)                # OSError that names the files and the contradiction
    proc_agree.placed(copies)               # zones and CPUs, for the events of a trace
"""

import errno
import math
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NoReturn

from pagetape import procfs
from pagetape.proc_copies import Copies

Zone = tuple[int, str]

# Counters of vmstat that never fall while a machine runs (vm_event_item.h). A kernel of 32 bits
# wraps one of them now and then, but not several during one recording.
_GROWING = ("pgalloc_", "pgfree", "pgfault", "pgmajfault", "pgscan_", "pgsteal_", "pgactivate")
_MOST_WRAPPED = 2

# Counters of a zone in zoneinfo that never fall; vm.numa_stat may have made them 0.
_OF_ZONES = re.compile(r"^Node +\d+, zone +\S+|^ +(numa_\w+) +([1-9]\d{0,15})$", re.MULTILINE)

# MemTotal is the sum of the managed pages (si_meminfo); a balloon may move between the two files.
_MEMORY_SLACK = 0.1


def growing(vmstat: str) -> dict[str, int]:
    """The counters in a text of vmstat that never fall while a machine runs."""
    rows = procfs.parse_vmstat(vmstat)
    return {row["name"]: row["value"] for row in rows if row["name"].startswith(_GROWING)}


def _fallen(before: dict[str, int], after: dict[str, int]) -> list[str]:
    return [name for name, value in before.items() if after.get(name, value) < value]


def has_restarted(before: dict[str, int], after: dict[str, int]) -> bool:
    """Whether so many growing counters fell that the machine restarted, or is another one."""
    fell = len(_fallen(before, after))
    return fell > _MOST_WRAPPED or fell == len(before.keys() & after.keys()) > 0


@dataclass(frozen=True)
class Places:
    """Where pages and CPUs of the machine are, at any of the stages."""

    zones: dict[Zone, tuple[int, int]]  # first pfn, and the one after the last
    cpus: frozenset[int]  # with per-CPU lists, or on a node; empty if unknown


class _Files:
    """What the files of one stage say."""

    def __init__(self, copies: Copies, stage: str) -> None:
        self.copies = copies
        self.stage = stage
        zones, pcps = procfs.parse_zoneinfo(copies.text("zoneinfo", stage) or "")
        self.zones = {(row["node"], row["zone"]): row for row in zones}
        self.cpus = {row["cpu"] for row in pcps}
        self.buddy = procfs.parse_buddyinfo(copies.text("buddyinfo", stage) or "")
        self.typed, self.counts = procfs.parse_pagetypeinfo(
            copies.text("pagetypeinfo", stage) or ""
        )
        vmstat = procfs.parse_vmstat(copies.text("vmstat", stage) or "")
        self.vmstat = {row["name"]: row["value"] for row in vmstat}
        self.of_zones = _counters_of(copies.text("zoneinfo", stage) or "")

    def name(self, name: str) -> str:
        path = self.copies.path(name, self.stage)
        return name if path is None else str(path.relative_to(self.copies.directory))

    def shape(self) -> dict[str, set[Zone]]:
        """The zones with pages, by the file that lists them."""
        found = {
            "zoneinfo": set(self.zones),
            "buddyinfo": {(row["node"], row["zone"]) for row in self.buddy},
            "pagetypeinfo": {(row["node"], row["zone"]) for row in self.typed},
        }
        return {name: zones for name, zones in found.items() if zones}

    def orders(self) -> dict[str, int]:
        found = {"buddyinfo": self.buddy, "pagetypeinfo": self.typed}
        return {
            name: 1 + max(row["page_order"] for row in rows) for name, rows in found.items() if rows
        }


def _counters_of(zoneinfo: str) -> dict[str, int]:
    """The counters of all zones that never fall."""
    found: dict[str, int] = {}
    head = ""
    for line in _OF_ZONES.finditer(zoneinfo):
        if line[1]:
            found[f"{line[1]} of {head}"] = int(line[2])
        else:
            head = " ".join(line[0].split())
    return found


def _words(zone: Zone) -> str:
    return f"Node {zone[0]}, zone {zone[1]}"


def _refuse(copies: Copies, why: str) -> NoReturn:
    raise OSError(errno.EINVAL, f"not of one machine: {why}", str(copies.directory))


def _check_stage(copies: Copies, files: _Files) -> None:
    shapes = list(files.shape().items())
    for (one, zones), (other, others) in pairwise(shapes):
        for zone in sorted(zones ^ others):
            there, lacking = (one, other) if zone in zones else (other, one)
            _refuse(
                copies,
                f"{files.name(there)} has {_words(zone)}, which {files.name(lacking)} lacks",
            )
    orders = files.orders()
    if len(set(orders.values())) > 1:
        words = " and ".join(f"{nr} orders in {files.name(name)}" for name, nr in orders.items())
        _refuse(copies, words)
    for name, rows in (("buddyinfo", files.buddy), ("pagetypeinfo", files.typed)):
        _check_free(copies, files, name, rows)


def _check_free(copies: Copies, files: _Files, name: str, rows: list[procfs.Row]) -> None:
    free: Counter[Zone] = Counter()
    for row in rows:
        free[row["node"], row["zone"]] += row["nr_free"] << row["page_order"]
    for zone, pages in free.items():
        if zone in files.zones and pages > files.zones[zone]["present"]:
            _refuse(
                copies,
                f"{_words(zone)} has {pages:,} free pages in {files.name(name)} and"
                f" {files.zones[zone]['present']:,} pages in all in {files.name('zoneinfo')}",
            )


def _check_nodes(copies: Copies, files: _Files) -> None:
    """The file `nodes` names all nodes and CPUs."""
    if copies.text("nodes") is None:
        return
    nodes = {node["id"]: node["cpus"] for node in copies.facts.get("nodes", [])}
    for node, _ in files.zones:
        if node not in nodes:
            _refuse(copies, f"{files.name('zoneinfo')} has node {node}, which the file nodes lacks")
    cpus = {cpu for own in nodes.values() for cpu in own}
    for cpu in sorted(files.cpus - cpus if cpus else ()):
        _refuse(copies, f"{files.name('zoneinfo')} has CPU {cpu}, which the file nodes lacks")


def _check_memory(copies: Copies, files: _Files) -> None:
    total = re.search(r"^MemTotal: +(\d{1,16}) kB", copies.text("meminfo") or "", re.MULTILINE)
    managed = sum(zone["managed"] for zone in files.zones.values())
    if total is None or not int(total[1]) or not managed:
        return
    shift = math.log2(int(total[1]) * 1024 / managed)
    if abs(shift - round(shift)) > _MEMORY_SLACK or not 12 <= round(shift) <= 16:
        _refuse(
            copies,
            f"{managed:,} managed pages in {files.name('zoneinfo')} are not the"
            f" {int(total[1]):,} kB of MemTotal in meminfo, with any size of a page",
        )


def _fact(copies: Copies, name: str, stage: str) -> str | None:
    return copies.text(name, stage) if copies.path(name, stage) else None


def _check_stages(copies: Copies, before: _Files, after: _Files) -> None:
    names = {name: [_fact(copies, name, s) for s in ("before", "after")] for name in _SAME}
    for name, (one, other) in names.items():
        if one is not None and other is not None and one.strip() != other.strip():
            _refuse(copies, f"{name}.before and {name}.after differ")
    if names["boot_id"][0] is None:  # a machine may get memory while it runs
        _check_spans(copies, before, after)
    orders = before.orders() | {f"{name}.after": nr for name, nr in after.orders().items()}
    if len(set(orders.values())) > 1:
        _refuse(copies, f"{min(orders.values())} orders before, {max(orders.values())} after")
    _check_counters(copies, before, after)


_SAME = ("version", "boot_id", "hostname")


def _check_spans(copies: Copies, before: _Files, after: _Files) -> None:
    if not before.zones or not after.zones:
        return
    for zone in sorted(before.zones.keys() | after.zones.keys()):
        spans: list[Any] = [
            tuple(found[name] for name in ("start_pfn", "spanned", "present")) if found else None
            for found in (before.zones.get(zone), after.zones.get(zone))
        ]
        if spans[0] != spans[1]:
            words = [
                f"no pages in {files.name('zoneinfo')}"
                if span is None
                else f"{span[2]:,} pages from pfn {span[0]:,} to {span[0] + span[1]:,} in"
                f" {files.name('zoneinfo')}"
                for span, files in zip(spans, (before, after), strict=True)
            ]
            _refuse(
                copies,
                f"{_words(zone)} has {words[0]} and {words[1]} (if memory was plugged in"
                " meanwhile, add boot_id.before and boot_id.after)",
            )


def _check_counters(copies: Copies, before: _Files, after: _Files) -> None:
    counters = {name: nr for name, nr in before.vmstat.items() if name.startswith(_GROWING)}
    for file, first, last in (
        ("vmstat", counters, after.vmstat),
        ("zoneinfo", before.of_zones, after.of_zones),
    ):
        fell = _fallen(first, last)
        if len(fell) > _MOST_WRAPPED:
            name = fell[0]
            raise OSError(
                errno.EINVAL,
                f"{after.name(file)} is older than {before.name(file)}, or of another machine:"
                f" {len(fell)} counters fell, as {name} from {first[name]:,} to {last[name]:,}",
                str(copies.directory),
            )


def check(copies: Copies) -> None:
    """Raise OSError if the files cannot be of one machine, or not in this order."""
    stages = [_Files(copies, stage) for stage in copies.stages]
    for files in stages:
        _check_stage(copies, files)
        _check_nodes(copies, files)
        _check_memory(copies, files)
    if len(stages) == 2:
        _check_stages(copies, *stages)


def placed(copies: Copies) -> Places:
    """The places of the machine's pages and CPUs, by the files of all stages."""
    spans: dict[Zone, list[tuple[int, int]]] = defaultdict(list)
    cpus = {cpu for node in copies.facts.get("nodes", []) for cpu in node["cpus"]}
    for stage in copies.stages:
        zones, pcps = procfs.parse_zoneinfo(copies.text("zoneinfo", stage) or "")
        cpus |= {row["cpu"] for row in pcps}
        for row in zones:
            start = row["start_pfn"]
            spans[row["node"], row["zone"]].append((start, start + row["spanned"]))
    return Places(
        {zone: (min(found)[0], max(end for _, end in found)) for zone, found in spans.items()},
        frozenset(cpus),
    )

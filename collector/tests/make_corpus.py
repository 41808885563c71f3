# SPDX-License-Identifier: Apache-2.0
"""Writes the first inputs of the collector's fuzz targets: make_corpus.py

Inputs that fuzzing found are beside them in corpus/, under names of their own.
"""

from __future__ import annotations

import struct
from pathlib import Path

from perfdata import PerfData
from perfettotrace import PerfettoTrace, described, message, perfetto_events
from perfettotrace import number as numbered
from tracedat import CPUSTAT, TSC2NSEC, UNAME, Format, Lost, Machine, TraceDat, ring

from conftest import DATA

CORPUS = Path(__file__).parent / "corpus"
_RUN, _RUN_BYTES = 0xFE, 64  # as fuzz_dat.c reads them


def packed(data: bytes) -> bytes:
    """The file as an input of fuzz_dat: runs of zeros are short."""
    out, at = bytearray(), 0
    while at < len(data):
        runs = 0
        while runs < 255 and data.startswith(bytes(_RUN_BYTES), at + runs * _RUN_BYTES):
            runs += 1
        if runs:
            out += bytes((_RUN, runs))
            at += runs * _RUN_BYTES
            continue
        out += bytes((_RUN, 0)) if data[at] == _RUN else data[at : at + 1]
        at += 1
    return bytes(out)


def formats(machine: Machine) -> list[Format]:
    """Events of several tables."""
    long = machine.long_size
    return [
        Format(
            "kmem",
            "mm_page_free",
            10,
            [("unsigned long pfn", long, False), ("unsigned int order", 4, False)],
        ),
        Format(
            "vmscan",
            "mm_vmscan_wakeup_kswapd",
            11,
            [("int nid", 4, True), ("int zid", 4, True), ("int order", 4, True)],
        ),
    ]


def trace(machine: Machine) -> TraceDat:
    """A short trace of two CPUs and two instances, with a gap."""
    free, wake = formats(machine)
    one = [(100 + 10 * n, free.record(machine, n, 0)) for n in range(5)]
    two = [(105 + 10 * n, wake.record(machine, 0, n, 2)) for n in range(3)]
    rings = [ring(machine, one), ring(machine, [*two[:1], Lost(3), *two[1:]])]
    stats = b"CPU: 0\nentries: 0\noverrun: 3\ncommit overrun: 0\ndropped events: 1\n\0"
    options = [
        (CPUSTAT, stats),
        (UNAME, b"Linux guest 6.12.0 x86_64\0"),
    ]
    return TraceDat(
        machine,
        formats=[free, wake],
        buffers={"": rings, "second": [ring(machine, one[:2]), b""]},
        options=options,
        kallsyms="ffffffff81000000 T vmstat_update\n",
        cmdlines="1 init\n",
    )


def dats() -> dict[str, bytes]:
    """Both versions, both byte orders, both word sizes; converted clocks."""
    found = {}
    for name, machine in (
        ("le64", Machine()),
        ("be64", Machine(">")),
        ("le32", Machine("<", 4)),
    ):
        for version in (6, 7):
            found[f"{name}-v{version}"] = packed(trace(machine).write(version))
    tsc = TraceDat(
        formats=formats(Machine()),
        buffers={"": [ring(Machine(), [(9, formats(Machine())[0].record(Machine(), 1, 0))])]},
        options=[(TSC2NSEC, struct.pack("<IIQ", 3, 1, 0))],
        clock="x86-tsc",
    )
    found["tsc-v6"] = packed(tsc.write(6))
    found["compressed"] = packed((DATA / "linux-6.1-zstd.dat").read_bytes())
    return found


def sub_buffers() -> dict[str, bytes]:
    """One sub-buffer of each layout."""
    found = {}
    for number, machine in enumerate(
        (Machine(), Machine(">"), Machine("<", 4), Machine(">", 4)),
    ):
        free, _ = formats(machine)
        records = [(100 + n, free.record(machine, n, 0)) for n in range(4)]
        records.append((1 << 40, b"\x04\0\0\0" + bytes(200)))
        page = ring(machine, [Lost(2), *records])
        found[f"layout{number}"] = bytes([number]) + page[:400]
    return found


def format_files() -> dict[str, bytes]:
    """The file `formats` of a spool."""
    found = {}
    for name, chosen in (("one", formats(Machine())[:1]), ("two", formats(Machine()))):
        text = "pagetape formats 1\nvmstat_update ff00\n"
        for one in chosen:
            body = one.text()
            text += f"event {one.system} {len(body)}\n{body}"
        found[name] = text.encode()
    flags = formats(Machine())[0]
    printed = Format(
        flags.system,
        "mm_page_alloc",
        12,
        [*flags.fields, ("unsigned long gfp_flags", 8, False), ("int migratetype", 4, True)],
        '"%s order=%d", (REC->gfp_flags) ? __print_flags(REC->gfp_flags, "|", '
        '{(unsigned long)0x40u, "__GFP_IO"}, {1UL << 7, "__GFP_FS"}) : "none", REC->order',
    ).text()
    found["flags"] = (
        f"pagetape formats 1\nvmstat_update 0\nevent kmem {len(printed)}\n{printed}".encode()
    )
    return found


def page_flags() -> dict[str, bytes]:
    """Orders, zones and flags."""
    buddy, slab, lru = 1 << 10, 1 << 7, 1 << 5
    words = struct.pack("<24Q", *[buddy] * 9, *[slab] * 3, *[lru] * 4, *[0] * 4, *[buddy] * 4)
    two_zones = bytes((4, 5, 2, 0, 0, 16, 0, 8, 16))
    return {"two-zones": two_zones + words, "one-zone": bytes((4, 4, 1, 0, 1, 23)) + words}


def writes() -> dict[str, bytes]:
    """Writes over a good spool: file, offset, number of bytes, bytes."""

    def write(file: int, at: int, data: bytes) -> bytes:
        return struct.pack("<BHB", file, at, len(data)) + data

    checkpoint = struct.pack("<BHB", 7, 4, 0) + bytes((0,)) + struct.pack("<Q", 0x315F74706B637470)
    return {
        "nothing": b"",
        "time": write(0, 4096, struct.pack("<Q", 1 << 63)),
        "counts": write(1, 192, struct.pack("<QQ", 5, 9)),
        "length": write(0, 8208, b"\xff\xff\xff\xff"),
        "overflow": write(2, 16, bytes(32)),
        "tasks": write(4, 12, b"8 8 1 3:a\n"),
        "short": struct.pack("<BHB", 250, 5000, 0),
        "checkpoint": checkpoint + bytes((1, 0) * 3),
    }


def perf_data() -> dict[str, bytes]:
    """A file and a pipe of perf, with lost events and names."""
    machine = Machine()
    free, wake = formats(machine)
    perf = PerfData([free, wake], comms=[(1, "sh")])
    perf.comm(1, "bash")
    for cpu in range(2):
        for n in range(3):
            perf.sample(free, cpu, 100 + n, free.record(machine, n, 0))
        perf.sample(wake, cpu, 104, wake.record(machine, 0, 1, 2))
        perf.lost(cpu, 105, 12)
        perf.round()
    return {"perf-data": perf.write(), "perf-pipe": perf.pipe()}


def perfetto() -> dict[str, bytes]:
    """Typed, generic and described events, lost events, names; as is and compressed."""
    numbers = {
        name: (at, {key: n for n, key in fields.items()})
        for (at, name), fields in perfetto_events().items()
    }
    trace = PerfettoTrace(numbers)
    trace.system("6.1.0", 2)
    trace.stats(1, {0: 1, 1: 2})
    trace.names({1: "sh"})
    alloc = ("mm_page_alloc", {"pfn": 4096, "order": 1, "gfp_flags": 0xCC0, "migratetype": 1})
    finished = ("mm_compaction_finished", {"nid": 0, "idx": 2, "order": 4, "ret": 5})
    trace.bundle(0, [(100, 1, 8, *alloc), (110, 1, 0, *finished)])
    trace.bundle(0, [(105, 1, 0, *alloc)], lost=True, as_generic=True)
    event = message(2, numbered(1, 100) + message(65540, numbered(1, 4096)))
    trace.raw_bundle(numbered(1, 1) + described(65540, "mm_page_free_batched", ["pfn"]) + event)
    trace.stats(2, {0: 9, 1: 2})
    trace.buffer(3)
    return {"perfetto": trace.write(), "perfetto-packed": trace.compressed()}


FTRACE = """\
# tracer: nop
# entries-in-buffer/entries-written: 5/9   #P:2
     <...>-5972    [001] d.h1.  7971.248176: mm_page_alloc: page=00000000ea63dfde pfn=0x5e4454\
 order=1 migratetype=1 gfp_flags=GFP_KERNEL|__GFP_COMP|0x2000000
CPU:0 [LOST 12 EVENTS]
    sh-5   (  5) [000] ....  7971.248180: mm_compaction_finished: node=0 zone=Normal   order=4 ret=\
complete
    sh-5         0d..1   42us+: mm_page_alloc_extfrag: page=1 pfn=0x5e4400 alloc_order=0\
 fallback_order=9 pageblock_order=9 alloc_migratetype=2 fallback_migratetype=1 fragmenting=0\
 change_ownership=1
    sh-5         [000] ....  7970.100000: sched_switch: prev_pid=5 ==> next_pid=6
"""
PERF_SCRIPT = """\
# os release : 6.1.0-13-amd64
  python3 27275 [000]   576.912056:         kmem:mm_page_free: page=0x290484 pfn=0x290484 order=0
  python3 27275/27275 [001]   576.912057:    1 vmscan:mm_shrink_slab_start: f+0x0 0xff: nid: 0\
 objects to shrink 5 gfp_flags GFP_KERNEL cache items 8 delta 1 total_scan 9 priority 12
  python3 27275   576.912056:  workqueue:workqueue_execute_start: work struct 0x1: function a
"""


def texts() -> dict[str, bytes]:
    """Lines of several layouts."""
    return {"ftrace": FTRACE.encode(), "perf-script": PERF_SCRIPT.encode()}


def main() -> None:
    """Write every input."""
    for name, inputs in (
        ("dat", dats()),
        ("foreign", {**perf_data(), **perfetto(), **texts()}),
        ("formats", format_files()),
        ("kpageflags", page_flags()),
        ("ring", sub_buffers()),
        ("spool", writes()),
    ):
        directory = CORPUS / f"fuzz_{name}"
        directory.mkdir(parents=True, exist_ok=True)
        for which, data in inputs.items():
            (directory / which).write_bytes(data)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""One recording in every form that an import reads: the same events in the same order."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from perfdata import PerfData
from perfettotrace import PerfettoTrace
from test_foreign_perfetto import NUMBERS
from test_import import MIGRATETYPES, alloc_format, free_format
from tracedat import Format, Machine, TraceDat, ring

from conftest import Rows, read_all
from pagetape.dat_file import DatFile
from pagetape.foreign_file import ForeignFile

MACHINE = Machine()
FINISHED = Format(
    "compaction",
    "mm_compaction_finished",
    30,
    [("int nid", 4, True), ("int idx", 4, True), ("int order", 4, True), ("int ret", 4, True)],
)
FORMATS = {of.name: of for of in (free_format(MACHINE), alloc_format(MACHINE), FINISHED)}
KERNEL = "6.12.0"  # its bits of __GFP_IO and __GFP_FS are those of alloc_format
CPUS = 3


@dataclass(frozen=True)
class Event:
    ts: int
    cpu: int
    pid: int
    name: str
    fields: dict[str, int]

    @property
    def raw(self) -> bytes:
        of = FORMATS[self.name]
        return of.record(MACHINE, *self.fields.values(), pid=self.pid, flags=8)

    @property
    def printed(self) -> str:
        """The fields as the kernel prints them."""
        said = {key: str(value) for key, value in self.fields.items()}
        if "gfp_flags" in said:
            names = {0x40: "__GFP_IO", 0x80: "__GFP_FS", 0xC0: "__GFP_IO|__GFP_FS"}
            said["gfp_flags"] = names[self.fields["gfp_flags"]]
        if "pfn" in said:
            said["pfn"] = hex(self.fields["pfn"])
            return " ".join(f"{key}={value}" for key, value in {"page": "00ff", **said}.items())
        return f"node={said['nid']} zone={'Normal':8} order={said['order']} ret=complete"


def recording() -> list[Event]:
    """Events of all CPUs, many at the same microsecond, in the order of a tape."""
    rng, found = random.Random(3), []
    for cpu in range(CPUS):
        ts = 1_000_000_000
        for n in range(150):
            ts += 1000 * rng.choice((0, 1, 1, 40))
            gfp = rng.choice((0x40, 0x80, 0xC0))
            name, fields = rng.choice(
                [
                    ("mm_page_free", {"pfn": 4096 + n, "order": n % 3}),
                    (
                        "mm_page_alloc",
                        {"pfn": 4096 + n, "order": n % 3, "gfp_flags": gfp, "migratetype": 1},
                    ),
                    ("mm_compaction_finished", {"nid": 0, "idx": 2, "order": 4, "ret": 5}),
                ]
            )
            found.append(Event(ts, cpu, 10 + cpu, name, fields))
    return sorted(found, key=lambda event: (event.ts, event.cpu))


def of_cpu(events: list[Event], cpu: int) -> list[Event]:
    return [event for event in events if event.cpu == cpu]


def as_dat(events: list[Event]) -> bytes:
    rings = [ring(MACHINE, [(e.ts, e.raw) for e in of_cpu(events, cpu)]) for cpu in range(CPUS)]
    return TraceDat(MACHINE, list(FORMATS.values()), buffers={"": rings}).write(6)


def as_perf(events: list[Event]) -> PerfData:
    perf = PerfData(list(FORMATS.values()), cpus=CPUS)
    for at in range(0, 150, 40):
        for cpu in range(CPUS):
            for e in of_cpu(events, cpu)[at : at + 40]:
                perf.sample(FORMATS[e.name], cpu, e.ts, e.raw)
        perf.round()
    return perf


def as_perfetto(events: list[Event], *, as_generic: bool = False) -> PerfettoTrace:
    trace = PerfettoTrace(NUMBERS)
    for at in range(0, 150, 40):
        for cpu in range(CPUS):
            some = of_cpu(events, cpu)[at : at + 40]
            made = [(e.ts, e.pid, 8, e.name, e.fields) for e in some]
            trace.bundle(cpu, made, as_generic=as_generic)
    return trace


def as_ftrace(events: list[Event]) -> bytes:
    head = f"# tracer: nop\n# entries-in-buffer/entries-written: {len(events)}/{len(events)}\n"
    lines = [
        f"{'a-' + str(e.pid):>24} [{e.cpu:03}] ..h.. {e.ts / 1e9:12.6f}: {e.name}: {e.printed}\n"
        for e in events
    ]
    return (head + "".join(lines)).encode()


def as_script(events: list[Event]) -> bytes:
    lines = [
        f"{'a':>16} {e.pid:5} [{e.cpu:03}] {e.ts / 1e9:12.6f}:"
        f" {FORMATS[e.name].system}:{e.name}: {e.printed}\n"
        for e in events
    ]
    return "".join(lines).encode()


FORMS: dict[str, Callable[[list[Event]], bytes]] = {
    "ftrace": as_ftrace,
    "perf script": as_script,
    "perf.data": lambda events: as_perf(events).write(),
    "perf.data of a pipe": lambda events: as_perf(events).pipe(),
    "Perfetto": lambda events: as_perfetto(events).write(),
    "Perfetto, compressed": lambda events: as_perfetto(events).compressed(),
    "Perfetto, generic": lambda events: as_perfetto(events, as_generic=True).write(),
}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    path = tmp_path_factory.mktemp("dat") / "t.dat"
    path.write_bytes(as_dat(recording()))
    return read_all(DatFile(str(path), MIGRATETYPES))


@pytest.mark.parametrize("form", FORMS)
def test_the_same_events_in_the_same_order(form: str, expected: Rows, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(FORMS[form](recording()))
    source = ForeignFile(str(path), MIGRATETYPES, KERNEL)
    rows = read_all(source)
    assert len(expected["event"]) > 200 and len(expected["compaction"]) > 100
    if form == "perf script":  # which prints no flags
        expected = {name: [row | {"flags": 0} for row in of] for name, of in expected.items()}
    assert rows == expected
    found = source.found
    assert found.kind == form.split(",")[0].removesuffix(" of a pipe")
    assert found.counts_loss == (form.startswith("perf.data") or form == "ftrace")
    assert found.in_us == (form in ("ftrace", "perf script"))
    assert source.bad_records == 0 and source.lost() == []

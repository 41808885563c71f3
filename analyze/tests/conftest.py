# SPDX-License-Identifier: Apache-2.0
"""Tapes for the tests, made from text that fits on half a screen."""

import csv
import json
import os
import pty
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import kept_process
import livetest
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pagetape import cli
from pagetape.ab.switch import SWITCHES, Host
from pagetape.asking import query
from pagetape.asking.database import Database
from pagetape.replaying import isolated
from pagetape.schemas import TABLES, Column
from pagetape.schemas.tape import Tape, Writer

GOLDEN = Path(__file__).parent / "golden"

# Files of more than 20 CPU seconds, the longest first.
LONG = [
    "test_readme.py",
    "test_paper.py",
    "test_diagnose.py",
    "test_queries.py",
    "test_origin.py",
    "test_replay.py",
    "test_load.py",
    "test_fleet_questions.py",
    "test_sweep.py",
    "test_ensemble.py",
    "test_demo_tapes.py",
]


def _value(column: Column, text: str) -> Any:
    if text == "":
        return None
    return text if column.labels or column.type == "utf8" else int(text)


def _rows(name: str) -> list[dict[str, Any]]:
    with (GOLDEN / "tape" / f"{name}.csv").open(newline="") as file:
        return [
            {key: _value(TABLES[name].column(key), text) for key, text in row.items()}
            for row in csv.DictReader(file)
        ]


def check_header(db: Database, q: query.Query, values: dict[str, Any]) -> None:
    """The statement of a query has each column of its header once, and fractions for none of the
    whole numbers. The selection around it would take the first of two, and round."""
    statement = q.sql.partition(" FROM (\n")[2].removesuffix("\n)")
    found = db.run(replace(q, sql=statement), values)
    types = list(zip(found.columns, map(str, found.types), strict=True))
    for column in q.columns:
        (kind,) = (kind for name, kind in types if name == column.name)
        assert "INT" not in column.type or kind not in ("DOUBLE", "FLOAT"), column.name


def write_golden(
    path: Path, facts: dict[str, Any] | None = None, tables: set[str] | None = None
) -> Path:
    """Write the golden tape to `path`, with changed facts or only some tables."""
    known = json.loads((GOLDEN / "tape" / "facts.json").read_text())
    with Writer(path, known | (facts or {})) as tape:
        for file in sorted((GOLDEN / "tape").glob("*.csv")):
            if tables is None or file.stem in tables:
                tape.rows(file.stem, _rows(file.stem))
    return path


def write_reclaim(
    path: Path,
    rows: list[tuple[int, dict[str, Any]]],
    table: str = "reclaim",
    pages: Sequence[tuple[int, dict[str, Any]]] = (),
) -> Path:
    """Write a tape of the events of one table: the time of each in ms, and its columns.

    `pages`: rows of `event`, likewise.
    """
    about = {"cpu": 0, "pid": 50, "flags": 0, "node": 0}
    with Writer(path, json.loads((GOLDEN / "tape" / "facts.json").read_text())) as out:
        out.rows(
            table,
            [about | {"ts": ms * 1_000_000, "at": at} | row for at, (ms, row) in enumerate(rows)],
        )
        out.rows("event", [{"cpu": 0, "flags": 0, "ts": ms * 1_000_000} | row for ms, row in pages])
    return path


def pytest_configure(config: pytest.Config) -> None:
    livetest.register(config)
    # Processes of the tests end by these signals, also if the caller ignores them (nohup, &).
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first: the processes that share the files end at about the same time."""
    items.sort(key=lambda item: (*LONG, item.path.name).index(item.path.name))


@pytest.fixture(scope="session")
def cache_of_the_run(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A cache apart from the user's own, empty at first; all processes of a run have the same."""
    base = tmp_path_factory.getbasetemp()
    cache = (base.parent if hasattr(request.config, "workerinput") else base) / "cache_of_the_run"
    cache.mkdir(mode=0o700, exist_ok=True)
    return cache


@pytest.fixture(scope="session", autouse=True)
def small_and_cached(cache_of_the_run: Path) -> Iterator[None]:
    """Ensembles have two members, unless a test says otherwise. All tests share one cache: the
    model's errors of a tape are measured once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAGETAPE_ENSEMBLE", "2")
        patch.setenv("XDG_CACHE_HOME", str(cache_of_the_run))
        yield


def make(*args: object) -> None:
    """Run a command line that makes what several tests share."""
    assert cli.run([str(arg) for arg in args]) == 0, args


@pytest.fixture(scope="session", autouse=True)
def end_of_the_kept_process() -> Iterator[None]:
    yield
    kept_process.end_all()


@pytest.fixture(autouse=True)
def one_engine_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sweeps of one test after the other play in one process."""
    monkeypatch.setattr(isolated, "Process", kept_process.KeptProcess)


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The golden tape."""
    return write_golden(tmp_path_factory.mktemp("tapes") / "golden.tape")


@pytest.fixture
def golden_with(tmp_path: Path) -> Callable[[dict[str, Any]], Path]:
    """Makes the golden tape with some facts changed."""
    return lambda facts: write_golden(tmp_path / "plain.tape", facts)


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tape with empty tables, of an unknown machine."""
    path = tmp_path_factory.mktemp("tapes") / "empty.tape"
    with Writer(path, {}):
        pass
    return path


@pytest.fixture(scope="module")
def of_nothing(empty: Path) -> Iterator[Database]:
    """The empty tape as views, once for all queries of a file."""
    with Database([Tape(empty)]) as db:
        yield db


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small machine that can be replayed: 64 MOVABLE pageblocks, all free at the start.

    Two CPUs allocate 6000 pages, every fifth of them UNMOVABLE, and free every other.
    """
    facts = json.loads((GOLDEN / "tape" / "facts.json").read_text())
    place = {"snapshot": 0, "ts": 0, "node": 0, "zone": "NORMAL"}
    first, pages = 1 << 16, 64 << 9
    zone = {"start_pfn": first, "spanned": pages, "present": pages, "managed": pages, "free": pages}
    marks = {"wmark_min": 64, "wmark_low": 80, "wmark_high": 96, "boost": 0}
    reserve = {c.name: 0 for c in TABLES["zone"].columns if c.name.startswith("lowmem_reserve")}
    lists = {"count": 0, "high": 64, "batch": 16, "high_min": 64, "high_max": 128}
    events: list[dict[str, Any]] = []
    for i in range(6000):
        event = {"cpu": i % 2, "pid": 100 + i % 2, "flags": 0, "pfn": first + i, "page_order": 0}
        kind = "MOVABLE" if i % 5 else "UNMOVABLE"
        events.append(
            event | {"ts": 1000 * i, "kind": "alloc", "migratetype": kind, "gfp_flags": 0}
        )
        if i % 2:
            events.append(event | {"ts": 1000 * i + 500, "kind": "free"})
    path = tmp_path_factory.mktemp("tapes") / "small.tape"
    with Writer(path, facts) as tape:
        tape.rows("event", events)
        tape.rows("zone", [place | zone | marks | reserve])
        tape.rows("pcp", [place | lists | {"cpu": cpu} for cpu in (0, 1)])
        block = place | {"migratetype": "MOVABLE"}
        tape.rows("free_area", [block | {"page_order": 10, "nr_free": 32, "capped": False}])
        tape.rows("block_count", [block | {"nr_blocks": 64}])
        tape.rows(
            "block_guess",
            [place | {"page_order": 10, "pfn": pfn} for pfn in range(first, first + pages, 1024)],
        )
        tape.rows(
            "pageblock",
            [block | {"pfn": n, "guessed": True} for n in range(first, first + pages, 512)],
        )
        tape.rows("task", [{"pid": 100, "comm": "even"}, {"pid": 101, "comm": "odd"}])
    return path


@pytest.fixture(scope="session")
def played(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model's run on the tape `small`: all decisions are the model's."""
    path = tmp_path_factory.mktemp("tapes") / "played.tape"
    make("replay", small, "-o", path)
    return path


def rewritten(
    source: Path,
    path: Path,
    facts: dict[str, Any] | None = None,
    change: Callable[[str, pa.Table], pa.Table] = lambda _, rows: rows,
) -> Path:
    """A copy of a tape, with these facts; `change` gets each table, and returns other rows."""
    tape = Tape(source)
    with Writer(path, tape.facts | (facts or {})) as out:
        for name in sorted(tape.tables):
            for batch in change(name, tape.table(name)).combine_chunks().to_batches():
                out.write(name, batch)
    return path


def beginning(source: Path, path: Path, events: int = 40_000) -> Path:
    """The first events of a tape, what is between them, and all of its snapshots."""

    def first(name: str, rows: pa.Table) -> pa.Table:
        if name == "event":
            return rows.slice(0, events)
        return rows.filter(pc.less_equal(rows["at"], events)) if "at" in rows.column_names else rows

    return rewritten(source, path, change=first)


def with_reclaim_rows(path: Path, small: Path, rows: list[dict[str, Any]]) -> Path:
    """The tape `small` with these rows of `reclaim`, of kswapd."""
    tape = Tape(small)
    with Writer(path, tape.facts) as out:
        for name in sorted(tape.tables):
            for batch in tape.batches(name):
                out.write(name, batch)
        about = {"cpu": 0, "pid": 50, "flags": 0, "node": 0, "at": 3000}
        out.rows("reclaim", [about | row for row in rows])
    return path


@pytest.fixture(scope="session")
def reclaimed(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tape `small` with a pass of kswapd, for runs with feedback."""
    rows = [
        {"ts": 3_000_000, "kind": "kswapd_wake", "zone": "NORMAL", "page_order": 0},
        {"ts": 3_100_000, "kind": "lru_shrink_inactive", "nr_scanned": 32, "nr_reclaimed": 32},
        {"ts": 3_200_000, "kind": "kswapd_sleep"},
    ]
    rows[1] |= {"priority": 12}
    return with_reclaim_rows(tmp_path_factory.mktemp("tapes") / "reclaimed.tape", small, rows)


def unpacked(tape: Path) -> Path:
    """The directory of the same tables, beside a tape in one file."""
    directory = tape.with_name(f"{tape.name}.unpacked")
    if tape.is_dir() or directory.exists():
        return tape if tape.is_dir() else directory
    with zipfile.ZipFile(tape) as archive:
        archive.extractall(directory)
    return directory


@pytest.fixture
def fake_host(tmp_path: Path) -> Host:
    """A machine of files: every switch at 0, 1 GiB of memory, and OOM kills of long ago."""
    root = tmp_path / "root"
    files = {one.file: "0\n" for one in SWITCHES} | {
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        "sys/kernel/mm/transparent_hugepage/defrag": "always defer [madvise] never\n",
        "proc/sys/vm/min_free_kbytes": "4096\n",
        "proc/sys/kernel/random/boot_id": "this-boot\n",
        "proc/meminfo": "MemTotal: 1048576 kB\nMemAvailable: 524288 kB\nSwapTotal: 0 kB\n",
        "proc/vmstat": "nr_free_pages 1000\noom_kill 3\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return Host(root)


@dataclass(frozen=True)
class Said:
    """The result of one command line. A failed assertion prints it with its message."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.status == 0, self.err
        return json.loads(self.out)


@pytest.fixture
def pagetape(capfd: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Run a command line in this process."""

    def run(*args: object) -> Said:
        status = cli.run([str(arg) for arg in args])
        out, err = capfd.readouterr()
        return Said(status, out, err)

    return run


def when_let_go(pagetape: Callable[..., Said], *command: object) -> Said:
    """A command on the tape of a killed recorder, which its guard holds for a moment."""
    until = time.monotonic() + 60
    while (said := pagetape(*command)).status and time.monotonic() < until:
        assert "is still being recorded" in said.err
        time.sleep(0.1)
    return said


def _on_terminal(*args: object, columns: int = 80, typed: bytes = b"", **env: str) -> str:
    """The output of a command line on a terminal; each line is typed at a prompt."""
    master, slave = pty.openpty()
    given = {"TERM": "xterm", "COLUMNS": str(columns), "LINES": "24"} | env
    inherited = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    process = subprocess.Popen(
        [sys.executable, "-c", "from pagetape.cli import main; main()", *map(str, args)],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=inherited | given,
        start_new_session=True,
    )
    os.close(slave)
    said, waiting = b"", typed.splitlines(keepends=True)
    try:
        while part := os.read(master, 65536):
            said += part
            if waiting and said.endswith((b"pagetape> ", b"\n... ", b"\r... ")):
                os.write(master, waiting.pop(0))
    except OSError:  # EIO: the last writer has gone
        pass
    os.close(master)
    process.wait()
    return said.decode().replace("\r\n", "\n")


@pytest.fixture
def on_terminal() -> Callable[..., str]:
    """Run a command line on a terminal of its own."""
    return _on_terminal

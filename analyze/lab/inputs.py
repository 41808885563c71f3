# SPDX-License-Identifier: Apache-2.0
"""Good inputs, which damage*.py change: tapes, trace.dat files, /proc copies and spools.

Tables of tapes are stored without compression. Damage to a compressed table is mostly an error of
the decompressor; damage to a plain one reaches offsets, dictionaries, validity bitmaps and values.

    home/tape/NAME.tape   recordings and replays; finished.tape is the second tape of a comparison
    home/dat/*.dat        trace.dat files
    home/proc             copies of /proc files, of the machine of linux-6.1-zstd.dat
    home/spool/NAME.tape  unfinished tapes with their spools; only where this machine can be traced
    home/bomb.arrow       a small file whose table has 2.2 GB
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from pagetape import cli
from pagetape.schemas import TABLES
from pagetape.schemas.form import BATCH_ROWS, form_of
from pagetape.schemas.tape import Tape, file_metadata

ROOT = Path(__file__).parents[2]
DATA = ROOT / "collector/tests/data"
DEMO = ROOT / "analyze/demo/pressure.tape"

GROUPS = b"pagetape.groups"  # in metadata: of a file the schema, of a batch the table
GROUP_TABLE = b"pagetape.groups of the batch"  # in those of the schema of a stored batch

_EVENTS = 4000  # of the bundled tape
_BATCH_ROWS = 1000
_BOMB_ROWS, _BOMB_BATCHES = 4 << 20, 16

# One line of each kind of policy that numa_maps.py reads, of tasks of the bundled tape.
_NUMA_MAPS = """\
/proc/166/numa_maps:7f20c0000000 default anon=5 dirty=5 N0=5 kernelpagesize_kB=4
/proc/166/task/167/numa_maps:7f20c0000000 prefer:1 anon=5 dirty=5 N1=5 kernelpagesize_kB=4
/proc/168/numa_maps:55d4e0000000 bind=static:0-1 file=/usr/bin/x mapped=2 N0=2 kernelpagesize_kB=4
/proc/168/numa_maps:55d4e0001000 interleave:0-1 anon=1 N0=1 kernelpagesize_kB=4
/proc/168/status:Mems_allowed_list:\t0-1
"""


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Discard stdout, also of C code."""
    saved = os.dup(1)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
    try:
        yield
        sys.stdout.flush()
    finally:
        os.dup2(saved, 1)
        os.close(saved)


def _pagetape(*words: object) -> None:
    with _quiet():
        status = cli.run([str(word) for word in words])
    if status:
        raise RuntimeError(f"pagetape {' '.join(map(str, words))}: exit status {status}")


def store(path: Path, table: pa.Table, batch_rows: int = _BATCH_ROWS) -> None:
    """Write a table of a tape without compression; the schema has the metadata, and may have the
    group table of a stored batch under GROUP_TABLE. Such a batch stays whole."""
    options = pa.ipc.IpcWriteOptions(compression=None)
    metadata = dict(table.schema.metadata or {})
    groups = metadata.pop(GROUP_TABLE, None)
    table = table.replace_schema_metadata(metadata).combine_chunks()
    with (
        pa.OSFile(str(path), "wb") as file,
        pa.ipc.new_file(file, table.schema, options=options) as writer,
    ):
        for batch in table.to_batches(max_chunksize=batch_rows if groups is None else None):
            writer.write_batch(batch, None if groups is None else {GROUPS: groups})


def in_groups(name: str, table: pa.Table) -> pa.Table:
    """The rows of a table as one stored batch, for store(); at most BATCH_ROWS."""
    form = form_of(name)
    (rows,) = table.combine_chunks().to_batches() or [TABLES[name].batch([])]
    ((batch, about),) = form.stored(rows, BATCH_ROWS)
    schema = form.file_schema({**(table.schema.metadata or {}), GROUP_TABLE: (about or {})[GROUPS]})
    return pa.Table.from_batches([batch]).replace_schema_metadata(schema.metadata)


def plain_copy(source: Path, target: Path, events: int | None = None) -> None:
    """The tape `source` without compression; with `events`, only its first rows.

    Rows of other event tables are placed by `at`: those after the last event are left out.
    """
    tape = Tape(source)
    target.mkdir()
    for name in sorted(tape.tables):
        table = tape.table(name)
        if events is not None and name == "event":
            table = table.slice(0, events)
        elif events is not None and TABLES[name].kinds:
            rows = sum(at <= events for at in table.column("at").to_pylist())
            table = table.slice(0, rows)
        store(
            target / f"{name}.arrow",
            table.combine_chunks().replace_schema_metadata(file_metadata(tape.facts)),
        )


def _torn_copy(source: Path, target: Path) -> None:
    """A tape whose recorder was killed: its largest tables have no footer."""
    shutil.copytree(source, target)
    for name in ("event", "reclaim"):
        file = target / f"{name}.arrow"
        os.truncate(file, file.stat().st_size * 3 // 4)


def _make_tapes(home: Path, work: Path) -> None:
    home.mkdir()
    plain_copy(DEMO, home / "exact.tape", _EVENTS)
    proc = work / "proc.tape"
    _pagetape("import", DATA / "linux-6.1-zstd.dat", "--proc", DATA / "proc-6.1", "-o", proc)
    plain_copy(proc, home / "proc.tape")
    _pagetape("import", DATA / "linux-6.12-stacks.dat", "-o", work / "stacks.tape")
    plain_copy(work / "stacks.tape", home / "stacks.tape")
    runs = {
        "replayed": ("replay", "--policy", "nofragment"),
        "feedback": ("replay", "--reclaim", "R1"),
        "validated": ("validate",),
    }
    for name, words in runs.items():
        made = work / f"{name}.tape"
        _pagetape(*words, home / "exact.tape", "-o", made)
        plain_copy(made, home / f"{name}.tape")
    with zipfile.ZipFile(work / "proc.tape") as archive:  # events in groups
        archive.extractall(home / "grouped.tape")
    _torn_copy(home / "proc.tape", home / "torn.tape")


def copy(source: Path, target: Path) -> None:
    """Copy a file or directory; blocks of zeros become holes."""
    subprocess.run(["cp", "-r", "--sparse=always", source, target], check=True)


def copy_as_is(source: Path, target: Path) -> None:
    """Copy with FIFOs, devices and links as they are."""
    subprocess.run(["cp", "-a", "--sparse=always", source, target], check=True)


def _make_spools(home: Path, work: Path) -> None:
    """Record this machine twice: with all decoding deferred, and as a kill would leave it."""
    home.mkdir()
    record = [sys.executable, "-c", "from pagetape.cli import main; main()", "record"]
    record += ["--snapshot", "proc", "--buffer", "1MB", "-o"]
    done = subprocess.run(
        [*record, work / "deferred.tape", "--defer", "--", "true"], capture_output=True
    )
    if done.returncode:
        return
    copy(work / "deferred.tape", home / "deferred.tape")
    running = work / "running.tape"
    with subprocess.Popen([*record, running, "--", "sleep", "60"], stderr=subprocess.PIPE) as p:
        try:
            end = time.monotonic() + 10
            while not (running / "spool/checkpoint").exists() and time.monotonic() < end:
                time.sleep(0.1)
            copy(running, home / "killed.tape")
        finally:
            p.send_signal(signal.SIGINT)
            p.communicate()


def _make_bomb(path: Path) -> None:
    """A valid event table of zeros: 2.2 GB in batches of some KB."""
    schema = TABLES["event"].arrow.with_metadata(file_metadata(Tape(DEMO).facts))
    arrays = [
        pa.DictionaryArray.from_arrays(
            pa.Array.from_buffers(
                field.type.index_type, _BOMB_ROWS, [None, pa.py_buffer(bytes(_BOMB_ROWS))]
            ),
            pa.array(column.labels),
        ).cast(field.type)
        if pa.types.is_dictionary(field.type)
        else pa.Array.from_buffers(
            field.type,
            _BOMB_ROWS,
            [None, pa.py_buffer(bytes(_BOMB_ROWS * field.type.bit_width // 8))],
        )
        for field, column in zip(schema, TABLES["event"].columns, strict=True)
    ]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema, options=options) as out:
        for _ in range(_BOMB_BATCHES):
            out.write_batch(batch)


def make(home: Path, *, live: bool = True) -> None:
    """Make all good inputs in the new directory `home`."""
    home.mkdir(parents=True)
    work = home / "work"
    work.mkdir()
    os.environ["XDG_CACHE_HOME"] = str(work)
    shutil.copytree(DATA / "proc-6.1", home / "proc")
    (home / "proc/numa_maps").write_text(_NUMA_MAPS)
    (home / "dat").mkdir()
    for dat in DATA.glob("*.dat"):
        shutil.copy(dat, home / "dat")
    _make_tapes(home / "tape", work)
    if live:
        _make_spools(home / "spool", work)
    _make_bomb(home / "bomb.arrow")
    shutil.rmtree(work)

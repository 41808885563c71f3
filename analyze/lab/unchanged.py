#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Play tapes with two installs of pagetape, and report whether their results are equal.

    unchanged.py --before PAGETAPE --after PAGETAPE [--keep DIR] TAPE...

PAGETAPE is the command of an install, such as BUILD/.venv/bin/pagetape. Both installs replay
every tape under several policies and reclaim modes, validate it, and play all tapes in one
sweep. Every table must have the same columns, types, values and nulls, and every --json
answer the same numbers. An enum may get labels at its end. Text for people may change: only
the numbers in it are compared. The exit status is 1 on any difference.

DIR retains the outputs of the first install, by tape and command; they are made only once.
DIR/differs retains the outputs of the second install that differ. Neither install uses the
cache of pagetape in the home directory. report_bench.py compares the speed of two installs.
"""

import json
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import program
import pyarrow as pa
import pyarrow.compute as pc

from pagetape.schemas import TABLES
from pagetape.schemas.form import form_of

_TIMEOUT = 900  # seconds of one command

# Every policy and reclaim mode at least once, and validate under a foreign kernel.
_COMMANDS = {
    "R0": "replay",
    "R1": "replay --reclaim R1",
    "explain": "replay --explain",
    "nofragment": "replay --policy nofragment:mode=always",
    "nofragment R1": "replay --policy nofragment:mode=always --reclaim R1",
    "pcp fixed": "replay --policy pcp:mode=fixed,high_min=448,batch=63 --policy zone_lock",
    "pcp auto": "replay --policy pcp:mode=auto,high_min=448,high_max=37449,tick_ms=500"
    " --policy zone_lock:profile=tape",
    "boost, stall R1": "replay --policy watermark_boost:factor=20000,trigger=claim_attempt"
    " --policy stall --reclaim R1",
    "fallback, stall": "replay --policy fallback:kernel=4.20 --policy stall:order=0"
    " --policy watermark_boost:factor=20000",
    "kswapd_sleep R1": "replay --kernel 4.20 --reclaim R1"
    " --policy kswapd_sleep:variant=v4.10,kcompactd=kswapd",
    "thp_numa R1": "replay --policy thp_numa --reclaim R1",
    "order_walk R2": "replay --policy order_walk:mode=order_first --reclaim R2"
    " --policy watermarks:watermark_scale_factor=300",
    "reserve": "replay --kernel 2.6.32 --policy reserve:mode=bug,nr_reserve_blocks=4",
    "fake_numa": "replay --kernel 5.0 --policy fake_numa --policy alloc_batch"
    " --policy zone_reclaim_mode",
    "split_zone": "replay --kernel 6.5 --policy split_zone --policy zonelist --prefer landed",
    "defrag_mode R1": "replay --policy defrag_mode --reclaim R1",
    "validate": "validate",
    "validate 6.8": "validate --kernel 6.8",
}
_SWEEP = (
    "sweep --policy {mainline,nofragment:mode=off} --kernel {auto,2.6.31,5.14,6.12.19}"
    " --reclaim {R0,R1}"
)

# Parts of JSON answers that differ from run to run, and parts that are text for people.
_VOLATILE = {"tape", "output", "name", "events_per_s", "made", "reused"}
_PROSE = {"explanation", "there", "not_modelled", "synthetic", "kernel_because"}


class Install:
    """An install of pagetape."""

    def __init__(self, command: Path) -> None:
        self.command = command.absolute()
        if not self.command.is_file():
            raise SystemExit(f"unchanged: {command}: no such command")
        where = "import pagetape; print(pagetape.__path__[0])"
        python = self.command.with_name("python")
        self.home = Path(_output([python, "-P", "-c", where]).strip())

    @cached_property
    def digest(self) -> str:
        """A name for this install alone."""
        parts = {".py", ".so", ".sql", ".toml", ".json"}
        return _digest(path for path in self.home.rglob("*") if path.suffix in parts)

    def run(self, words: Sequence[str | Path], cache: Path) -> tuple[int, Any]:
        """Exit status of a command, and its JSON object. `cache` receives the inferred rows."""
        env = os.environ | {"XDG_CACHE_HOME": str(cache)}
        argv = [self.command, *words, "--json"]
        found = subprocess.run(argv, env=env, capture_output=True, timeout=_TIMEOUT)
        if found.returncode:
            return found.returncode, found.stderr.decode(errors="replace")
        return 0, json.loads(found.stdout)


def _output(words: Sequence[str | Path]) -> str:
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout


def _digest(files: Iterable[Path]) -> str:
    """A hash of the names and contents of files."""
    found = blake2b(digest_size=6)
    for path in sorted(files):
        found.update(path.name.encode())
        found.update(path.read_bytes())
    return found.hexdigest()


def _parts(tape: Path) -> Iterable[Path]:
    """The files of a tape."""
    return tape.glob("*.arrow") if tape.is_dir() else [tape]


@dataclass(frozen=True)
class Task:
    """One command on its tapes."""

    name: str
    command: str
    tapes: tuple[Path, ...]

    @property
    def label(self) -> str:
        return self.tapes[0].stem if len(self.tapes) == 1 else f"{len(self.tapes)} tapes"

    @cached_property
    def key(self) -> str:
        """A name for this task alone."""
        contents = _digest(chain(*map(_parts, self.tapes)))
        digest = blake2b((contents + self.command).encode(), digest_size=6).hexdigest()
        return re.sub(r"\W+", "-", f"{self.label} {self.name} {digest}")

    def output(self, install: Install, where: Path, cache: Path) -> Path:
        """The directory of an install's outputs, answer.json and `out`; made once."""
        path = where / self.key
        if not path.exists():
            where.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(dir=where, prefix="part-") as name:
                part = Path(name) / "output"
                part.mkdir()
                words: list[str | Path] = [*self.command.split(), *self.tapes, "-o", part / "out"]
                status, answer = install.run(words, cache)
                found = json.dumps({"status": status, "answer": answer})
                (part / "answer.json").write_text(found, "utf-8")
                with suppress(OSError):  # another process was first
                    part.rename(path)
        return path


def _lasting(answer: Any) -> Any:
    """An answer without the parts that differ from run to run."""
    found = {key: value for key, value in answer.items() if key not in _VOLATILE}
    if "runs" in found:
        found["runs"] = [_lasting(run) for run in found["runs"]]
    return found


def _numbers(value: Any) -> Any:
    """The numbers in a text."""
    if isinstance(value, dict):
        return {key: _numbers(inside) for key, inside in value.items()}
    if isinstance(value, list):
        return [_numbers(inside) for inside in value]
    return re.findall(r"\d+", value) if isinstance(value, str) else value


def _tapes(output: Path, answer: Any) -> list[Path]:
    """The tapes of a command's output; a sweep's in the order of its runs."""
    if isinstance(answer, dict) and "runs" in answer:
        return [output / "out" / f"{run['name']}.tape" for run in answer["runs"]]
    return [output / "out"] if (output / "out").exists() else []


def _files(tape: Path) -> dict[str, pa.ipc.RecordBatchFileReader]:
    """The file of every table of a tape, which is a directory or a zip archive."""
    if tape.is_dir():
        sources = {path.stem: pa.memory_map(str(path)) for path in sorted(tape.glob("*.arrow"))}
    else:
        with zipfile.ZipFile(tape) as archive:
            names = sorted(archive.namelist())
            sources = {name.removesuffix(".arrow"): archive.read(name) for name in names}
    return {name: pa.ipc.open_file(source) for name, source in sources.items()}


def _rows(name: str, file: pa.ipc.RecordBatchFileReader) -> pa.Table:
    """The rows of a table as they are stored, those in groups in their order."""
    if "group_0" not in file.schema.names:
        return file.read_all()
    form, schema = form_of(name).of_file(file.schema.metadata), TABLES[name].arrow.remove_metadata()
    batches = map(file.get_batch_with_custom_metadata, range(file.num_record_batches))
    arrays = [form.arrays(batch, about, list(range(len(schema)))) for batch, about in batches]
    return pa.Table.from_batches([pa.RecordBatch.from_arrays(a, schema=schema) for a in arrays])


def _facts(file: pa.ipc.RecordBatchFileReader) -> Any:
    return json.loads((file.schema.metadata or {}).get(b"pagetape.facts", b"{}"))


def _json_differences(before: Any, after: Any, at: str = "") -> Iterator[str]:
    """The differences of two JSON values, as text. In text for people, only numbers count."""
    if isinstance(before, dict) and isinstance(after, dict):
        # A new count of 0, of a new label, says nothing new.
        added = [key for key in after if key not in before and after[key] != 0]
        for key in [*before, *added]:
            inside = f"{at}.{key}" if at else key
            if key not in before or key not in after:
                yield f"{inside}: only {'after' if key in after else 'before'}"
                continue
            one, other = before[key], after[key]
            if key in _PROSE:
                one, other = _numbers(one), _numbers(other)
            yield from _json_differences(one, other, inside)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for i, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _json_differences(one, other, f"{at}[{i}]")
    elif type(before) is not type(after) or before != after:
        yield f"{at}: {before!r} before, {after!r} after"


def _coded(column: pa.ChunkedArray) -> tuple[pa.Array, list[str]]:
    """The values of a column as one array; of an enum the numbers, and the labels."""
    whole = column.combine_chunks()
    if pa.types.is_dictionary(whole.type):
        return whole.indices, whole.dictionary.to_pylist()
    return whole, []


def _first_row(before: pa.Array, after: pa.Array) -> int | None:
    """The first row that differs, of those that both have."""
    rows = min(len(before), len(after))
    before, after = before.slice(0, rows), after.slice(0, rows)
    if before.equals(after):
        return None
    nulls = pc.xor(before.is_null(), after.is_null())
    differs = pc.or_(nulls, pc.fill_null(pc.not_equal(before, after), False))
    found = int(pc.index(differs, True).as_py())
    return found if found >= 0 else None


def table_difference(before: pa.Table, after: pa.Table) -> str | None:
    """The first difference of two tables: a column and a row."""
    columns = [
        [f"{c.name} {c.type}{'' if c.nullable else ' not null'}" for c in t.schema]
        for t in (before, after)
    ]
    if columns[0] != columns[1]:
        pairs = zip([*columns[0], "(none)"], [*columns[1], "(none)"], strict=False)
        one, other = next(pair for pair in pairs if pair[0] != pair[1])
        return f"column '{one}' before, '{other}' after"
    found: list[tuple[int, str]] = []
    for name in before.schema.names:
        if before[name].equals(after[name]):
            continue
        (old, old_labels), (new, new_labels) = _coded(before[name]), _coded(after[name])
        # A label may be added at the end: the numbers of the others remain.
        if old_labels != new_labels[: len(old_labels)] and before.num_rows and after.num_rows:
            return f"{name}: labels {old_labels} before, {new_labels} after"
        row = _first_row(old, new)
        if row is not None:
            values = f"{before[name][row].as_py()} before, {after[name][row].as_py()} after"
            found.append((row, f"{name}, row {row}: {values}"))
    if found:
        return min(found)[1]
    if before.num_rows != after.num_rows:
        return f"{before.num_rows} rows before, {after.num_rows} after"
    return None


def _tape_differences(before: Path, after: Path) -> Iterator[str]:
    """The differences of two tapes, table by table."""
    old, new = _files(before), _files(after)
    for name in sorted({*old, *new}):
        if name not in old or name not in new:
            yield f"table {name}: only {'after' if name in new else 'before'}"
            continue
        if found := table_difference(_rows(name, old[name]), _rows(name, new[name])):
            yield f"table {name}: {found}"
        if name == "event":
            facts = _facts(old[name]), _facts(new[name])
            yield from (f"facts: {found}" for found in _json_differences(*facts))


def differences(before: Path, after: Path) -> Iterator[str]:
    """The differences of the outputs of a task."""
    old, new = (json.loads((path / "answer.json").read_text()) for path in (before, after))
    if old["status"] or new["status"]:
        if old["status"] != new["status"]:
            message = next(found["answer"] for found in (old, new) if found["status"])
            last = "".join(message.splitlines()[-1:])
            yield f"exit status {old['status']} before, {new['status']} after: {last}"
        return
    answers = _lasting(old["answer"]), _lasting(new["answer"])
    yield from (f"answer: {found}" for found in _json_differences(*answers))
    tapes = [_tapes(path, one["answer"]) for path, one in ((before, old), (after, new))]
    if len(tapes[0]) != len(tapes[1]):
        yield f"{len(tapes[0])} tapes before, {len(tapes[1])} after"
        return
    for one, other in zip(*tapes, strict=True):
        where = f"{one.stem}: " if len(tapes[0]) > 1 else ""
        yield from (where + found for found in _tape_differences(one, other))


def _amount(output: Path) -> str:
    """A description of the compared outputs."""
    found = json.loads((output / "answer.json").read_text())
    if found["status"]:
        return f"both end with exit status {found['status']}"
    rows = [
        sum(file.get_batch(i).num_rows for i in range(file.num_record_batches))
        for tape in _tapes(output, found["answer"])
        for file in _files(tape).values()
    ]
    return f"{len(rows)} tables, {sum(rows):,} rows"


class Comparison:
    """Tasks played with both installs."""

    def __init__(self, before: Install, after: Install, keep: Path, work: Path) -> None:
        self._before, self._after = before, after
        self._keep = keep
        self._work = work
        self.differ = self.same = 0

    def play(self, task: Task) -> None:
        """Print a line that says whether the outputs of a task are the same."""
        store = self._keep / self._before.digest
        before = task.output(self._before, store, store / "cache")
        after = task.output(self._after, self._work / "after", self._work / "cache")
        found = list(differences(before, after))
        there = self._keep / "differs" / task.key
        shutil.rmtree(there, ignore_errors=True)
        line = f"{task.label:<22} {task.name:<17} "
        if not found:
            self.same += 1
            line += f"same     {_amount(before)}"
        else:
            self.differ += 1
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            line += f"differs  {found[0]}{more}"
            shutil.copytree(after, there)
            (there / "differences").write_text("\n".join(found) + "\n", "utf-8")
        shutil.rmtree(after)
        print(line, flush=True)

    def play_all(self, tasks: Iterable[Task]) -> None:
        """The tasks of one tape, in their order: the first infers what the others use."""
        for task in tasks:
            self.play(task)


def _size(tape: Path) -> int:
    return sum(path.stat().st_size for path in _parts(tape))


def compare(before: Install, after: Install, tapes: Sequence[Path], keep: Path, work: Path) -> int:
    """Every command on every tape, on all CPUs; the exit status."""
    comparison = Comparison(before, after, keep, work)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        by_tape = [
            [Task(name, command, (tape,)) for name, command in _COMMANDS.items()]
            for tape in sorted(tapes, key=_size, reverse=True)
        ]
        list(pool.map(comparison.play_all, by_tape))
    comparison.play(Task("sweep", _SWEEP, tuple(tapes)))
    total = comparison.same + comparison.differ
    print(f"{total} runs: {comparison.same} same, {comparison.differ} differ")
    return 1 if comparison.differ else 0


def main() -> int:
    parser = program.parser(__doc__)
    parser.add_argument("--before", type=Path, required=True, metavar="PAGETAPE")
    parser.add_argument("--after", type=Path, required=True, metavar="PAGETAPE")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="directory that retains outputs")
    parser.add_argument("tapes", nargs="+", type=Path, metavar="TAPE")
    given = parser.parse_args()
    before, after = Install(given.before), Install(given.after)
    tapes = [tape.absolute() for tape in given.tapes]
    with TemporaryDirectory(dir="/var/tmp", prefix="unchanged-") as work:
        return compare(before, after, tapes, given.keep or Path(work, "keep"), Path(work))


if __name__ == "__main__":
    program.run(main)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Try damaged inputs on every command that reads.

    mutate.py [--count N] [--first SEED] [--kind KIND]... [--jobs N] [--keep DIR]
              [--inputs DIR] [--json]
    mutate.py --kind KIND --seed SEED [--keep DIR]

Each seed makes one damaged input of each kind and one command line, the same ones on every run.
Each command line has 60 s of each CPU (120 s on the clock) and 2 GiB. A result is wrong if the
command ends by a signal or with a traceback, takes too long or too much memory, prints anything on
stderr but its own lines, breaks its JSON, prints control characters, changes its input, or leaves a
part of an output. An input with a wrong result stays in DIR, with the file `why`. Exit status 1 if
there is one.
"""

import json
import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import commands
import damage
import damage_source
import damage_tape
import inputs
import program
import trial

from pagetape import cli
from pagetape.tapes import cache

Line = list[str]


@dataclass(frozen=True)
class Kind:
    """A kind of input: its name in the trial's directory, and how it is made."""

    name: str
    make: Callable[[Path, Path, Random], str]  # (home, directory, random): says the damage
    lines: Callable[[Random], list[Line]]


def _choose(directory: Path, random: Random) -> Path:
    return random.choice(sorted(directory.iterdir()))


def _tape(home: Path, directory: Path, random: Random) -> str:
    source = _choose(home / "tape", random)
    inputs.copy(source, directory / "t.tape")
    done = damage_tape.damage_tape(directory / "t.tape", random, home)
    return f"{source.name}: {done}"


def _spool(home: Path, directory: Path, random: Random) -> str:
    source = _choose(home / "spool", random)
    inputs.copy(source, directory / "s.tape")
    return f"{source.name}: {damage_source.damage_spool(directory / 's.tape', random, home)}"


def _spool_lines(random: Random) -> list[Line]:
    if random.random() < 0.2:
        return [commands.of_tape("s.tape", random)]
    return commands.of_import("s.tape", random)


def _dat(home: Path, directory: Path, random: Random) -> str:
    source = _choose(home / "dat", random)
    shutil.copy(source, directory / "t.dat")
    return f"{source.name}: {damage_source.damage_dat(directory / 't.dat', random)}"


def _proc(home: Path, directory: Path, random: Random) -> str:
    shutil.copytree(home / "proc", directory / "proc")
    shutil.copy(home / "dat/linux-6.1-zstd.dat", directory / "t.dat")
    return damage_source.damage_proc(directory / "proc", random)


def _numa_maps(home: Path, directory: Path, random: Random) -> str:
    shutil.copy(home / "proc/numa_maps", directory)
    return damage.damage_text_file(directory / "numa_maps", random)


def _options(home: Path, directory: Path, random: Random) -> str:
    source = _choose(home / "tape", random)
    inputs.copy(source, directory / "t.tape")
    return source.name


KINDS = {
    "tape": Kind("t.tape", _tape, lambda random: [commands.of_tape("t.tape", random)]),
    "spool": Kind("s.tape", _spool, _spool_lines),
    "dat": Kind("t.dat", _dat, lambda random: commands.of_import("t.dat", random)),
    "proc": Kind(
        "proc", _proc, lambda random: commands.of_import("t.dat", random, ["--proc", "proc"])
    ),
    "numa_maps": Kind(
        "numa_maps",
        _numa_maps,
        lambda _random: [["replay", "base.tape", "--numa-maps", "numa_maps", "--json"]],
    ),
    "options": Kind("t.tape", _options, lambda random: [commands.of_options("t.tape", random)]),
}

# Of 100 inputs, so many of each kind.
SHARES = {"tape": 56, "spool": 12, "dat": 10, "proc": 10, "numa_maps": 2, "options": 10}


def plan(count: int, first: int, kinds: Sequence[str]) -> Iterator[tuple[str, int]]:
    """The kind and seed of each trial; kinds take turns by their shares."""
    shares = {kind: SHARES[kind] for kind in kinds}
    credit = dict.fromkeys(kinds, 0.0)
    seeds = dict.fromkeys(kinds, first)
    for _ in range(count):
        for kind in kinds:
            credit[kind] += shares[kind] / sum(shares.values())
        kind = max(kinds, key=lambda k: credit[k])
        credit[kind] -= 1
        yield kind, seeds[kind]
        seeds[kind] += 1


@dataclass(frozen=True)
class Report:
    """One trial: `failure` is one of trial.FAILURES, or empty."""

    kind: str
    seed: int
    damage: str
    line: str
    failure: str
    status: int | None
    seconds: float
    rss: int
    tail: str  # the end of stderr


def _left(out: Path, line: Line, before: set[str]) -> list[str]:
    """Outputs of a failed command. A sweep and an archive may go on later from whole files."""
    if line[0] in ("sweep", "archive"):
        return [path.name for path in out.rglob("*.part")]
    return sorted({path.name for path in out.iterdir()} - before)


def attempt(kind: str, seed: int, home: Path, directory: Path) -> Report:
    """One trial in the empty `directory`."""
    chosen = KINDS[kind]
    random = Random(f"{kind} {seed}")
    (directory / "base.tape").symlink_to(home / "tape/exact.tape")
    (directory / "out").mkdir()
    words = directory / "damage"
    trial.apart(lambda: words.write_text(chosen.make(home, directory, random)))
    for line in chosen.lines(Random(f"{kind} {seed} command")):
        outputs = {path.name for path in (directory / "out").iterdir()}
        before = trial.state(directory / chosen.name)
        result = trial.run(line, directory)
        changed = trial.state(directory / chosen.name) != before
        left = _left(directory / "out", line, outputs)
        wrong = trial.failure(line, result, changed=changed, left=left)
        if wrong or result.status:
            break
    return Report(
        kind,
        seed,
        words.read_text(),
        f"pagetape {shlex.join(line)}",
        wrong,
        result.status,
        result.seconds,
        result.rss,
        result.err[-4000:].decode(errors="replace"),
    )


_LARGE = 1 << 30  # bytes that a stored input may have


def _is_large(path: Path) -> bool:
    files = path.rglob("*") if path.is_dir() else (path,)
    return sum(file.lstat().st_size for file in files) > _LARGE


def _keep(report: Report, directory: Path, keep: Path) -> None:
    target = keep / f"{report.kind}-{report.seed}-{report.failure}"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    chosen = KINDS[report.kind]
    if not _is_large(directory / chosen.name):  # `why` has the seed
        inputs.copy_as_is(directory / chosen.name, target / chosen.name)
    status = "-" if report.status is None else report.status
    (target / "why").write_text(
        f"{report.kind}: {report.damage}\n{report.line}\n{report.failure}: exit status {status},"
        f" {report.rss >> 20} MiB, {report.seconds:.1f} s; mutate.py --kind {report.kind}"
        f" --seed {report.seed}\n{report.tail}\n"
    )


def _preload() -> None:
    """Import all that a command may need, so that a forked child need not."""
    for module, _ in cli.COMMANDS.values():
        import_module(f"pagetape.commands.{module}")
    for name in ("pyarrow.dataset", "pyarrow.parquet", "pyarrow.compute", "duckdb"):
        import_module(name)
    for name in ("asking.database", "fleet.parts", "pages.sweep_page"):
        try:
            import_module(f"pagetape.{name}")
        except ImportError:
            continue  # an optional dependency
    cache.build()


def _work(part: list[tuple[str, int]], home: Path, keep: Path | None, out: int) -> None:
    with os.fdopen(out, "w") as pipe, tempfile.TemporaryDirectory(prefix="mutate-") as temporary:
        for kind, seed in part:
            directory = Path(temporary) / "trial"
            directory.mkdir()
            report = attempt(kind, seed, home, directory)
            if report.failure and keep:
                _keep(report, directory, keep)
            shutil.rmtree(directory)
            print(json.dumps(asdict(report)), file=pipe, flush=True)


def _stop(*_: object) -> None:
    """End a process of the trials once: a second signal would interrupt its clearing up."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    raise SystemExit(1)


def trials(
    planned: list[tuple[str, int]], home: Path, jobs: int, keep: Path | None = None
) -> Iterator[Report]:
    """Try all that is planned, by `jobs` processes; the reports come as they are made."""
    _preload()
    read, write = os.pipe()
    pids = []
    for job in range(jobs):
        pid = os.fork()
        if pid == 0:
            os.close(read)
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, _stop)
            try:
                _work(planned[job::jobs], home, keep, write)
            except SystemExit:  # by _stop
                os._exit(1)
            except BaseException as e:
                print(f"mutate: {e!r}", file=sys.stderr)
                os._exit(1)
            os._exit(0)
        pids.append(pid)
    os.close(write)
    try:
        with os.fdopen(read) as pipe:
            for line in pipe:
                yield Report(**json.loads(line))
    except BaseException:
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        raise
    finally:
        statuses = [os.waitpid(pid, 0)[1] for pid in pids]
    if any(statuses):
        raise RuntimeError("a process of the trials ended early")


def summary(reports: Sequence[Report]) -> dict[str, Any]:
    """Counts by kind and by command, and the wrong ones."""

    def counts(key: Callable[[Report], str]) -> list[dict[str, Any]]:
        tried = Counter(key(report) for report in reports)
        failed = Counter(key(report) for report in reports if report.failure)
        refused = Counter(key(report) for report in reports if report.status in (1, 2))
        return [
            {
                "name": name,
                "tried": nr,
                "answered": nr - refused[name] - failed[name],
                "refused": refused[name],
                "failed": failed[name],
            }
            for name, nr in sorted(tried.items())
        ]

    return {
        "inputs": len(reports),
        "failed": Counter(report.failure for report in reports if report.failure),
        "kinds": counts(lambda report: report.kind),
        "commands": counts(lambda report: report.line.split()[1]),
        "slowest_s": max((report.seconds for report in reports), default=0),
        "largest_bytes": max((report.rss for report in reports), default=0),
        "failures": [asdict(report) for report in reports if report.failure],
    }


def _print_progress(nr: int, of: int, failed: int, begin: float) -> None:
    """One line that changes on a terminal; elsewhere a line for every 500 inputs."""
    terminal = sys.stderr.isatty()
    if nr % (20 if terminal else 500) and nr != of:
        return
    text = f"{nr:,} of {of:,}, {failed} wrong, {nr / (time.monotonic() - begin):.1f}/s"
    if terminal:
        print(f"\r{text} ", end="\n" if nr == of else "", file=sys.stderr, flush=True)
    else:
        print(text, file=sys.stderr, flush=True)


def main() -> int:
    parser = program.parser(__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="inputs to try")
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    parser.add_argument("--kind", action="append", choices=list(KINDS))
    parser.add_argument("--seed", type=int, help="try this one input only")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--keep", type=Path, default=Path("build/mutate"))
    parser.add_argument("--inputs", type=Path, help="directory of the good inputs, made if absent")
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    arguments = parser.parse_args()
    keep: Path = arguments.keep.absolute()
    with tempfile.TemporaryDirectory(prefix="mutate-inputs-") as temporary:
        home = (arguments.inputs or Path(temporary) / "inputs").absolute()
        kinds = arguments.kind or list(KINDS)
        if not home.exists():
            trial.apart(lambda: inputs.make(home, live="spool" in kinds))
        if "spool" in kinds and not list(home.glob("spool/*")):
            print("mutate: this machine cannot be recorded: no spools", file=sys.stderr)
            kinds.remove("spool")
        if arguments.seed is None:
            planned = list(plan(arguments.count, arguments.first, kinds))
        else:
            planned = [(kind, arguments.seed) for kind in kinds]
        begin, reports, failed = time.monotonic(), [], 0
        for report in trials(planned, home, arguments.jobs, keep):
            reports.append(report)
            failed += bool(report.failure)
            _print_progress(len(reports), len(planned), failed, begin)
            if report.failure and not arguments.json:
                place = f"{report.kind} {report.seed}"
                print(report.failure, place, report.line, report.damage, sep="\t", flush=True)
    found = summary(reports) | {"seconds": time.monotonic() - begin}
    if arguments.json:
        program.give(found)
    else:
        print(f"{len(reports):,} inputs, {failed} wrong: {dict(found['failed'])}")
    return 1 if failed else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    program.run(main)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure the accuracy of the model on recordings.

    fidelity.py [--build DIR] [--work DIR] [--only LOAD]... [--unseen] [RECORDING...]
    fidelity.py --programs [--work DIR] [--unseen] [RECORDING...]

Records loads on this machine, with exact snapshots. Also takes the given recordings: tapes,
directories of tapes, or directories with a trace.dat (any *.dat) and the /proc files that
`pagetape import --proc` reads. --programs takes the given recordings alone; without any, it records
the real programs of programs.py. On each recording the program validates the model one step ahead,
plays a free run under the tape's own kernel, and compares both with the record. The free runs of
programs are those of calibration.py. The tapes stay in the work directory.

The unseen halves of the corpus (corpus.py) and of the real programs (programs.py) are only named,
unless --unseen is given: no one looks at them while the model is changed.
"""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import accuracy
import corpus
import program
import programs
from program import say

from pagetape.asking.database import Database
from pagetape.asking.query import reports
from pagetape.replaying import ensemble, playback
from pagetape.replaying.divergence import explain
from pagetape.replaying.freerun import score
from pagetape.replaying.playback import Run, play
from pagetape.replaying.validation import inferred, preferences, validate
from pagetape.schemas.tape import Tape, is_tape
from pagetape.tapes.info import describe

HERE = Path(__file__).parent

# Free runs of one recording that differ by a few changes, see replaying/ensemble.py.
DRAWS = 16


@dataclass(frozen=True)
class Load:
    """A load on the allocator during a recording."""

    name: str
    words: str
    seconds: int
    quiet: bool  # no memory pressure
    hog_mib: int = 0  # pin memory until this many MiB are free

    def command(self, build: Path, files: str) -> list[str]:
        if self.name == "compile":
            return [sys.executable, str(HERE / "compile.py"), str(self.seconds), str(build)]
        role = {"extfrag": "mixed"}.get(self.name, self.name)  # its name before there was another
        return program.load(role, self.seconds, files, build)


LOADS = (
    Load("storm", "page-fault storm, a process on every CPU", 3, quiet=True),
    Load("grow", "processes that grow and shrink, with file I/O", 5, quiet=True),
    Load("pipes", "800 MiB of pipe buffers, with fallbacks", 3, quiet=True),
    Load("compile", "compilers, one after the other on every CPU", 8, quiet=True),
    Load("extfrag", "files, processes and huge pages with reclaim", 20, quiet=False, hog_mib=3500),
)


@dataclass(frozen=True)
class Recording:
    """A tape to measure the model on."""

    name: str
    words: str
    quiet: bool
    path: Path
    half: str = ""  # of the corpus or the programs: seen or unseen; or calibration
    of: str = ""  # guests or programs, if it has a half


def record(load: Load, build: Path, work: Path) -> Recording:
    """Record the load."""
    tape = work / f"{load.name}.tape"
    if load.quiet:  # a full page cache is memory pressure by itself
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("1")
    hog = programs.hogging(load.hog_mib, build)
    with TemporaryDirectory(dir=work, prefix=f"{load.name}-") as files, hog:
        command = load.command(build.absolute(), files)
        program.run_pagetape("record", "-o", tape, "--force", "--", *command)
    return Recording(load.name, load.words, load.quiet, tape)


def given(path: Path, work: Path) -> Iterator[Recording]:
    """The recordings at a path; those of an earlier run include its directory's name."""
    if is_tape(path):
        for one in corpus.recordings():
            if one.name == path.stem:
                yield Recording(one.name, one.words, False, path, one.half, "guests")
                return
        for known in programs.programs():
            if path.stem in known.recordings:
                yield Recording(path.stem, known.words, False, path, known.half, "programs")
                return
        for load in LOADS:
            if load.name == path.stem:
                yield Recording(f"{path.parent.name}-{load.name}", load.words, load.quiet, path)
                return
        yield Recording(path.stem, "", False, path)
        return
    found = sorted(path.glob("*.dat")) if path.is_dir() else []
    for dat in found:
        name = path.name if len(found) == 1 else f"{path.name}-{dat.stem}"
        tape = work / f"{name}.tape"
        program.run_pagetape("import", dat, "--proc", path, "-o", tape, "--force")
        yield Recording(name, "", False, tape)
    if path.is_dir() and not found:
        for inside in sorted(path.iterdir()):
            yield from given(inside, work)


def _rows(tape: Path, report: str, **values: Any) -> list[dict[str, Any]]:
    with Database([Tape(tape)]) as db:
        return db.run(reports()[report], values).objects()


def named(recording: Recording) -> dict[str, Any]:
    """The facts of a recording, without a measure."""
    info = describe(Tape(recording.path))
    facts = ("kernel", "cpus", "nodes", "duration_s", "stored", "lost", "snapshot")
    return {
        "name": recording.name,
        "words": recording.words,
        "quiet": recording.quiet,
        "half": recording.half,
        "of": recording.of,
        **{name: info[name] for name in facts},
    }


def drawn(source: playback.Source) -> list[int]:
    """The fallbacks of DRAWS assisted free runs with small changes, in rising order."""
    runs = {"own": Run("auto", (), assisted=True)}
    rows = ensemble.play(source, runs, DRAWS).to_pylist()
    return sorted(row["value"] for row in rows if row["metric"] == "fallbacks")


def free_runs(tape: Tape, model: Path) -> dict[str, Any]:
    """The measures of free runs of one recording."""
    source = playback.Source(tape, inferred(tape), preferences(tape))
    out = playback.NewTape(model, replace=True)
    play(source, Run("auto", ()), out)
    plain = score(tape, Tape(model))
    assisted = Run("auto", (), assisted=True)
    run = play(source, assisted, out)
    found = score(tape, Tape(model))
    parting = explain(source, assisted) if found["first_divergence"] else None
    return {
        "free_run": found
        | {"anomalies": run["anomalies"], "parting": parting, "draws": drawn(source)},
        "requests_only": {name: plain[name] for name in ("allocs", "alloc_exact", "extfrag")},
    }


def measure(recording: Recording, work: Path) -> dict[str, Any]:
    """All measures of the model's accuracy on one recording."""
    tape = Tape(recording.path)
    found, model = (work / f"{recording.name}.{kind}.tape" for kind in ("validate", "model"))
    validated = validate(tape, "auto", found, replace=True)
    ahead = {
        **named(recording),
        "version": tape.facts.get("version"),
        "validate": {name: value for name, value in validated.items() if name != "tape"},
        "exactness": _rows(found, "model.exactness"),
        "exactness_by_second": _rows(found, "model.exactness", interval_ms=1000),
        "inferred": sum(batch.num_rows for batch in Tape(found).batches("inferred")),
        "misses": _rows(found, "model.misses"),
    }
    return ahead if recording.of == "programs" else ahead | free_runs(tape, model)


def main() -> None:
    parser = program.parser(__doc__)
    parser.add_argument("--build", type=Path, default=Path("build/release"))
    parser.add_argument("--work", type=Path, default=Path("build/fidelity"))
    loads = [*(load.name for load in LOADS), "none"]
    parser.add_argument("--only", action="append", choices=loads)
    parser.add_argument("--programs", action="store_true", help="real programs instead of loads")
    parser.add_argument("--unseen", action="store_true")
    parser.add_argument("recordings", nargs="*", type=Path)
    arguments = parser.parse_args()
    work: Path = arguments.work
    work.mkdir(parents=True, exist_ok=True)
    recordings = []
    for load in () if arguments.programs else LOADS:
        if not arguments.only or load.name in arguments.only:
            say(f"== {load.name}: {load.words}")
            recordings.append(record(load, arguments.build, work))
    if arguments.programs and not arguments.recordings:
        programs.record(work / "programs")
        arguments.recordings = [work / "programs"]
    for path in arguments.recordings:
        recordings += given(path, work)
    results = []
    for recording in recordings:
        if recording.half == "unseen" and not arguments.unseen:
            results.append(named(recording))
            continue
        say(f"== the model on {recording.name}")
        results.append(measure(recording, work))
    program.give(accuracy.tables(results))


if __name__ == "__main__":
    program.run(main)

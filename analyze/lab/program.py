# SPDX-License-Identifier: Apache-2.0
"""What the programs of the laboratory share: arguments, the end of a program, and its result.

A program that measures prints one JSON object on stdout, and its progress on stderr. lab.py runs
it, and stores the result as tables of results.json.
"""

import argparse
import json
import mmap
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
INSTANCES = Path("/sys/kernel/tracing/instances")
LOAD = "collector/pagetape-load"  # in a build directory
SETTLED_S = 1.0  # from the begin of a load to what is measured

_POPULATE_WRITE = 23  # MADV_POPULATE_WRITE


def parser(doc: str | None) -> argparse.ArgumentParser:
    """A parser with the docstring of a program as its help."""
    summary, _, rest = (doc or "").partition("\n\n")
    return argparse.ArgumentParser(
        description=summary, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> dict[str, Any]:
    """A table of a result."""
    return {"columns": list(columns), "rows": [list(row) for row in rows]}


def say(text: str) -> None:
    """A line of progress."""
    print(text, file=sys.stderr, flush=True)


def give(result: Any) -> None:
    """Print the result."""
    print(json.dumps(result))


def run_pagetape(*words: object) -> None:
    """Run a command of pagetape; what it prints goes to stderr. CalledProcessError if it fails."""
    subprocess.run([BIN / "pagetape", *map(str, words)], check=True, stdout=sys.stderr)


def tracing(pid: int) -> bool | None:
    """Whether the instance of a recorder traces; None: there is none, or it comes or goes."""
    try:
        for found in INSTANCES.glob(f"pagetape-{pid}-*"):
            return (found / "tracing_on").read_text().startswith("1")
    except OSError:
        pass
    return None


def taken(child: subprocess.Popen[Any]) -> tuple[float, float]:
    """Wait for a process: the CPU seconds, and the most MiB of memory, that it took."""
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def load(name: str, seconds: float, files: str | Path, build: Path) -> list[str]:
    """The command of a load, whose files are in a directory of its own below `files`."""
    return [str(build / LOAD), name, f"--seconds={seconds}", f"--dir={files}"]


@contextmanager
def running(*command: object) -> Iterator[subprocess.Popen[str]]:
    """A process, with its lines in a pipe, that is terminated at the end."""
    words = list(map(str, command))
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


@contextmanager
def fragmented(mib: int) -> Iterator[None]:
    """Every other page of so much memory is free: its free pages cannot merge. 0: none."""
    if not mib:
        yield
        return
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    with mmap.mmap(-1, mib << 20, flags=private) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        memory.madvise(_POPULATE_WRITE)
        for offset in range(0, len(memory), 2 * mmap.PAGESIZE):
            memory.madvise(mmap.MADV_DONTNEED, offset, mmap.PAGESIZE)
        yield


def failed(error: subprocess.CalledProcessError) -> str:
    """The program that failed, and the last line of what it printed about it."""
    said = (error.stderr or "").strip().splitlines()
    return f"{Path(error.cmd[0]).name}: {said[-1] if said else f'exit status {error.returncode}'}"


def run(main: Callable[[], int | None]) -> None:
    """Run a program and end the process; what the caller or the machine did wrong is one line."""
    name = Path(sys.argv[0]).stem
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as e:
        sys.exit(f"{name}: {failed(e)}")
    except subprocess.TimeoutExpired as e:
        sys.exit(f"{name}: {e.cmd[0]} did not finish in {e.timeout:.0f} s")
    except OSError as e:
        sys.exit(f"{name}: {e.strerror or e}")
    except ValueError as e:
        sys.exit(f"{name}: {e}")
    except KeyboardInterrupt:
        sys.exit(130)

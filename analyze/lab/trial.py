# SPDX-License-Identifier: Apache-2.0
"""One command line in a forked child of this process, with limits, and the check of its result.

This process has imported pagetape and started no thread, so a fork is a fresh start at little cost.
"""

import contextlib
import faulthandler
import json
import os
import resource
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from pagetape import cli

SECONDS = 60.0  # of each CPU: a command that takes more hangs; 34 runs of 24 GB take 20 to 40
WAITS = 2  # times as long on the clock: a command that takes no CPU hangs as well
MEMORY = 2 << 30  # bytes resident

_POLL_S = 0.05
_DISK = 4 << 30  # the largest file that a command may write
_LINES = 3  # of stderr: notes, and one error

# How a result can be wrong, the worst first.
FAILURES = (
    "crash",
    "hang",
    "memory",
    "traceback",
    "status",
    "stderr",
    "json",
    "control",
    "modified",
    "leftover",
)


@dataclass(frozen=True)
class Result:
    """How a command line ended."""

    status: int | None  # None: by a signal
    signal: int
    seconds: float
    rss: int  # bytes, the most
    too_long: bool
    too_large: bool
    out: bytes
    err: bytes


def _child(work: Callable[[], int]) -> NoReturn:
    try:
        status = work()
        sys.stdout.flush()
        for thread in threading.enumerate():  # as the interpreter does at its end
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
        sys.stderr.flush()
        os._exit(status)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def _limited(line: list[str], directory: Path) -> int:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setsid()
    os.chdir(directory)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    for fd, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, fd)
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - what it was may be redirected
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_DISK, _DISK))
    os.environ["XDG_CACHE_HOME"] = str(directory / "cache")
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)
    return cli.run(line)


def _cpu_seconds(session: int) -> float:
    """What the processes of a session, and those that they have waited for, have taken."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            words = stat.read_text().rpartition(")")[2].split()
            if int(words[3]) == session:
                ticks += sum(map(int, words[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _hangs(pid: int, seconds: float) -> bool:
    """Whether it has taken too long, however busy the machine is."""
    most = SECONDS * len(os.sched_getaffinity(0))
    return seconds > SECONDS and (seconds > WAITS * SECONDS or _cpu_seconds(pid) > most)


def _resident(pid: int) -> int:
    with contextlib.suppress(OSError, IndexError):
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize()
    return 0


def _end(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)


def run(line: list[str], directory: Path) -> Result:
    """Run `pagetape LINE` in `directory`."""
    begin = time.monotonic()
    pid = os.fork()
    if pid == 0:
        _child(lambda: _limited(line, directory))
    fd = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    too_long = too_large = False
    try:
        while not poll.poll(_POLL_S * 1000):
            too_long = _hangs(pid, time.monotonic() - begin)
            too_large = _resident(pid) > MEMORY
            if too_long or too_large:
                _end(pid, signal.SIGUSR1)  # faulthandler prints where it is
                time.sleep(0.2)
                break
    finally:
        _end(pid, signal.SIGKILL)  # and processes that it left
        os.close(fd)
    _, status, usage = os.wait4(pid, 0)
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    rss = usage.ru_maxrss * 1024
    return Result(
        os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
        number,
        time.monotonic() - begin,
        rss,
        too_long,
        too_large or rss > MEMORY,
        (directory / "stdout").read_bytes() if (directory / "stdout").exists() else b"",
        (directory / "stderr").read_bytes() if (directory / "stderr").exists() else b"",
    )


def apart(work: Callable[[], object]) -> None:
    """Run `work` in a forked child, so that this process starts no thread. Its error is raised."""
    pid = os.fork()
    if pid == 0:

        def done() -> int:
            work()
            return 0

        _child(done)
    _, status = os.waitpid(pid, 0)
    if status:
        raise RuntimeError("a mutation failed")


def _refused(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _is_object(text: bytes) -> bool:
    try:
        return isinstance(json.loads(text, parse_constant=_refused), dict)
    except ValueError:
        return False


def _raw_control(text: bytes) -> bool:
    try:
        words = text.decode()
    except UnicodeDecodeError:
        return True
    return any((c < " " and c not in "\n\t") or "\x7f" <= c <= "\x9f" for c in words)


def _wrong_stderr(result: Result) -> bool:
    lines = result.err.decode(errors="replace").splitlines()
    said = all(line.startswith("pagetape: ") for line in lines) and len(lines) <= _LINES
    return not said or (result.status != 0 and not lines)


def _found(line: list[str], result: Result, changed: bool, left: list[str]) -> Iterator[str]:
    if result.too_large:
        yield "memory"
    elif result.too_long:
        yield "hang"
    elif result.signal:
        yield "crash"
    if b"Traceback (most recent call last)" in result.err:
        yield "traceback"
    elif not (result.signal or result.too_long or result.too_large):
        if result.status not in (0, 1, 2):
            yield "status"
        if _wrong_stderr(result):
            yield "stderr"
        if "--json" in line and result.status == 0 and not _is_object(result.out):
            yield "json"
        if _raw_control(result.out) or _raw_control(result.err):
            yield "control"
        if result.status and left:
            yield "leftover"
    if changed:
        yield "modified"


def failure(line: list[str], result: Result, *, changed: bool, left: list[str]) -> str:
    """The worst of FAILURES, or "" if the result is as it should be.

    `changed`: the input differs from before. `left`: files in the directory of outputs.
    """
    return min(_found(line, result, changed, left), key=FAILURES.index, default="")


def state(path: Path) -> list[tuple[str, int, int, int]]:
    """Name, mode, size and time of change of each file of an input."""
    files = sorted(path.rglob("*")) if path.is_dir() else []
    found = []
    for file in (path, *files):
        with contextlib.suppress(OSError):
            s = file.lstat()
            found.append((str(file), s.st_mode, s.st_size, s.st_mtime_ns))
    return found

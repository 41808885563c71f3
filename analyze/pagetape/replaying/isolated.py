# SPDX-License-Identifier: Apache-2.0
"""Functions in a process of their own, so that nothing that they do ends this one.

The engine is compiled code: whatever data does to it, a sweep goes on, and a worker of a cluster
lives. Results, errors and progress come back through a pipe. The process ends when this one does.
"""

import contextlib
import os
import pickle
import queue
import signal
import site
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

# The process is isolated (-I): it runs no file of the working directory. It takes pagetape from
# where this one has it, and packages from the directories that the user has named or owns.
_CHILD = (
    "import sys; root, *others = sys.argv[1:];"
    " root in sys.path or sys.path.insert(0, root); sys.path += others;"
    " from pagetape.replaying.isolated import serve; serve()"
)

_END_S = 10  # time for the process to remove its temporary files

Progress = Callable[[float], None]


class Crash(Exception):
    """The process ended before its function did; the message says how."""


class Failure(Exception):
    """The function raised an error that is no TapeError or other OSError."""


def reason(error: BaseException) -> str:
    """An error in one line."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    if isinstance(error, Crash | Failure):
        return str(error)
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _places() -> list[str]:
    """The directory of pagetape, and those of PYTHONPATH and of the user's own packages."""
    named = [] if sys.flags.ignore_environment else os.environ.get("PYTHONPATH", "").split(":")
    own = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    root = Path(__file__).resolve().parents[2]
    return [str(root), *(place for place in (*named, *own) if Path(place).is_absolute())]


def _unnamed_file() -> IO[bytes]:
    return os.fdopen(os.memfd_create("stderr", os.MFD_CLOEXEC), "w+b")


class Process:
    """A process that calls functions, one at a time. It starts with the first call."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] | None = None  # of the child

    def _start(self) -> subprocess.Popen[bytes]:
        self._stderr = _unnamed_file()
        return subprocess.Popen(
            [sys.executable, "-I", "-c", _CHILD, *_places()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
        )

    def call(
        self, function: Callable[..., Any], *args: Any, progress: Progress | None = None
    ) -> Any:
        """The result of a module's function, called with `args` and, if given, `progress`.

        Raises Crash if the process ends, the function's OSError, and Failure for its other errors.
        """
        if self._child is None:
            self._child = self._start()
        child = self._child
        assert child.stdin is not None and child.stdout is not None
        try:
            pickle.dump((function, args, progress is not None), child.stdin)
            child.stdin.flush()
            while True:
                kind, value = pickle.load(child.stdout)
                if kind == "progress":
                    assert progress is not None
                    progress(value)
                elif kind == "error":
                    raise value
                else:
                    return value
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            raise Crash(self._how_it_ended()) from None

    def _how_it_ended(self) -> str:
        """The end of the process in words; the next call starts another."""
        assert self._child is not None and self._stderr is not None
        status = self._child.wait()
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        self.close()
        return f"the engine's process ended with {how}" + (f": {lines[-1]}" if lines else "")

    def close(self) -> None:
        """End the process."""
        child, self._child = self._child, None
        if child is None:
            return
        child.terminate()
        try:
            child.wait(_END_S)
        except subprocess.TimeoutExpired:
            child.kill()
        with contextlib.suppress(OSError), child:  # closes the pipes
            pass
        if self._stderr is not None:
            self._stderr.close()

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _end(_number: int, _frame: object) -> None:
    raise SystemExit(128 + signal.SIGTERM)


def _read_jobs(jobs: IO[bytes], take: Callable[[Any], None]) -> None:
    """Pass on jobs; the end of the pipe is the end of the process that sends them."""
    with contextlib.suppress(EOFError, OSError, pickle.UnpicklingError):
        while True:
            take(pickle.load(jobs))
    os.kill(os.getpid(), signal.SIGTERM)


def serve() -> None:
    """The body of the process: call what comes through stdin, answer on stdout."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the parent, which ends this
    signal.signal(signal.SIGTERM, _end)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    waiting: queue.Queue[Any] = queue.Queue()
    threading.Thread(
        target=_read_jobs, args=(os.fdopen(os.dup(0), "rb"), waiting.put), daemon=True
    ).start()
    while True:
        _answer(answers, *_called(answers, *waiting.get()))


def _answer(answers: IO[bytes], kind: str, value: Any) -> None:
    pickle.dump((kind, value), answers)
    answers.flush()


def _called(
    answers: IO[bytes], function: Callable[..., Any], args: tuple[Any, ...], with_progress: bool
) -> tuple[str, Any]:
    """Call a function; the answer's kind and value."""
    lock = threading.Lock()
    reported = 0.0

    def progress(share: float) -> None:
        nonlocal reported
        with lock:
            if share - reported >= 0.005:
                reported = share
                _answer(answers, "progress", share)

    try:
        return "result", function(*args, progress=progress) if with_progress else function(*args)
    except OSError as e:
        return "error", e
    except Exception as e:
        return "error", Failure(reason(e))

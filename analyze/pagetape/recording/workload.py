# SPDX-License-Identifier: Apache-2.0
"""The workload of a recording: a command, a span of time, or neither, until a signal."""

import contextlib
import errno
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from pagetape.schemas.tape import TapeError
from pagetape.tapes import regular, temporary

_STDERR = 2  # its file descriptor
GRACE_S = 5  # seconds for a command to end after the recording

SAMPLES = "PAGETAPE_SAMPLES"  # the command finds the file of its samples there
_SAMPLE_BYTES = 1 << 28  # most of that file


class Workload:
    """A workload: call start(), wait() until it is over, then finish()."""

    def __init__(
        self,
        argv: Sequence[str],
        duration: float | None,
        *,
        on_second: bool = False,
        to_stderr: bool = False,
    ) -> None:
        """With `to_stderr`, the command's stdout is our stderr: ours has the answer alone.

        With `on_second`, start() waits until a second of the monotonic clock begins.

        The kernel's vmstat workers run once a second, at the same time in each: the per-CPU lists
        of two runs of a command then shrink at the same moments of its work.
        """
        if argv and not shutil.which(argv[0]):
            raise TapeError(errno.ENOENT, f"{argv[0]}: command not found")
        self._argv = argv
        self._duration = duration
        self._on_second = on_second
        stderr = subprocess.DEVNULL if sys.stderr is None else _STDERR
        self._stdout = stderr if to_stderr else None
        self._deadline = float("inf")
        self._child: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self.signal: int | None = None  # that ended it
        self.samples = b""  # that the command wrote, after finish()
        self.no_samples = ""  # or the reason why they cannot be read
        self._room = contextlib.ExitStack()
        self._samples: Path | None = None
        # Wakes wait(). A signal handler may use it at any time, unlike a lock.
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()

    @contextlib.contextmanager
    def signals(self) -> Iterator[None]:
        """In this context, SIGINT, SIGTERM and SIGHUP end the workload instead of the program.

        An ignored SIGHUP (nohup) stays ignored.
        """
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            numbers.append(signal.SIGHUP)
        before = [signal.signal(n, self._signalled) for n in numbers]
        try:
            yield
        finally:
            for number, handler in zip(numbers, before, strict=True):
                signal.signal(number, handler)

    def _signalled(self, number: int, _frame: object) -> None:
        self.signal = number
        self.stop()

    @property
    def until(self) -> str:
        """When it is over, in words."""
        ends = [f"{self._argv[0]} ends"] if self._argv else []
        if self._duration is not None:
            ends.append(f"{self._duration:g} s have passed")
        return " or ".join([*ends, "Ctrl-C"])

    def start(self) -> None:
        """Start the command and the clock, unless the workload was stopped before."""
        if self._on_second and not self._stopped:
            time.sleep(1 - time.monotonic() % 1)
        if self._argv and not self._stopped:
            self._samples = self._room.enter_context(temporary.scratch("samples")) / "samples"
            env = os.environ | {SAMPLES: str(self._samples)}
            self._child = subprocess.Popen(self._argv, stdout=self._stdout, env=env)
            threading.Thread(target=self._watch, args=(self._child,), daemon=True).start()
        if self._duration is not None:
            self._deadline = time.monotonic() + self._duration

    def _watch(self, child: subprocess.Popen[bytes]) -> None:
        child.wait()
        self.stop()

    def stop(self) -> None:
        """End the workload now."""
        self._stopped = True
        self.nudge()

    def nudge(self) -> None:
        """Let wait() return early."""
        self._wake.put(None)

    def wait(self, seconds: float = float("inf")) -> bool:
        """Wait up to `seconds` or until a nudge; returns whether the workload is over."""
        left = min(seconds, self._deadline - time.monotonic())
        with contextlib.suppress(queue.Empty):
            self._wake.get(timeout=max(left, 0) if left < threading.TIMEOUT_MAX else None)
        return self._stopped or time.monotonic() >= self._deadline

    def finish(self) -> int:
        """Stop the command if it still runs (status 0); returns its exit status."""
        if self._child is None:
            return 0
        try:
            return self._end(self._child)
        finally:
            self._take_samples()

    def _take_samples(self) -> None:
        if self._samples is None:
            return
        try:
            self.samples = regular.read(self._samples, _SAMPLE_BYTES)
        except TapeError as e:
            if e.errno != errno.ENOENT:
                self.no_samples = str(e.strerror)
        self._room.close()
        self._samples = None

    def _end(self, child: subprocess.Popen[bytes]) -> int:
        status = child.poll()
        if status is not None:
            return status if status >= 0 else 128 - status
        child.terminate()
        try:
            child.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        return 0

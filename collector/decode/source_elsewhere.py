# SPDX-License-Identifier: Apache-2.0
"""A source that reads a file in a process of its own, so that no file ends this one.

A library may trust the sizes in a file, and a file may shrink while it is mapped: the process that
reads it then ends, and this one has an error.
"""

from __future__ import annotations

import contextlib
import errno
import faulthandler
import gc
import mmap
import os
import pickle
import resource
import signal
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

import pyarrow as pa

from pagetape._collector import CollectorError, Source

# CPU time of the process that reads: no good file takes as long, even if it is compressed.
_MIN_S = 8
_BYTES_PER_S = 2 << 20

_ROUND = 1 << 16  # bytes: sizes of batches in the shared memory are multiples


Opener = Callable[[], Source]


class _Memory:
    """Places for batches in memory that two processes share, each process with its own object."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._maps: dict[int, mmap.mmap] = {}  # by offset
        self._end = 0
        self._free: list[int] = []  # offsets; of the writer

    def at(self, offset: int, size: int) -> mmap.mmap:
        if offset not in self._maps:
            self._maps[offset] = mmap.mmap(self._fd, size, offset=offset)
        return self._maps[offset]

    def free(self, offsets: Sequence[int]) -> None:
        self._free += offsets

    def store(self, batch: pa.RecordBatch) -> tuple[int, int]:
        """Copy the batch to a free place, with its schema; the place's offset and size."""
        options = pa.ipc.IpcWriteOptions(use_threads=False)
        count = pa.MockOutputStream()
        _write(count, batch, options)
        for offset in self._free:
            if len(self._maps[offset]) >= count.size():
                self._free.remove(offset)
                break
        else:
            offset = self._end
            self._end += -(-count.size() // _ROUND) * _ROUND
            os.ftruncate(self._fd, self._end)
            self.at(offset, self._end - offset)
        place = self._maps[offset]
        _write(pa.FixedSizeBufferWriter(pa.py_buffer(place)), batch, options)
        return offset, len(place)


def _write(out: Any, batch: pa.RecordBatch, options: pa.ipc.IpcWriteOptions) -> None:
    with pa.ipc.new_stream(out, batch.schema, options=options) as stream:
        stream.write_batch(batch)


class _Server:
    """In the process that reads: answers one call at a time, and has the next batch ready."""

    def __init__(self, reader: Source, memory: _Memory) -> None:
        self._reader = reader
        self._memory = memory
        self._ready: tuple[str, Any] | None = None

    def _next(self) -> tuple[str, Any]:
        try:
            found = self._reader.read()
            if found is None:
                return "result", None
            place = self._memory.store(pa.record_batch(found[1]))
            return "result", (found[0], *place, self._reader.progress)
        except Exception as e:
            return "error", e

    def prepare(self) -> None:
        if self._ready is None:
            self._ready = self._next()

    def read(self, freed: Sequence[int]) -> tuple[str, Any]:
        self._memory.free(freed)
        self.prepare()
        assert self._ready is not None
        answer, self._ready = self._ready, None
        return answer

    def answer(self, name: str, *args: Any) -> tuple[str, Any]:
        if name == "read":
            return self.read(*args)
        try:
            value = getattr(self._reader, name)
            return "result", value(*args) if callable(value) else value
        except Exception as e:
            return "error", e


def _serve(
    calls: IO[bytes], answers: IO[bytes], memory: _Memory, opened: Opener, passed: int
) -> None:
    """The body of the process: open the file, pass `passed` batches over, answer calls."""

    def send(answer: tuple[str, Any]) -> None:
        pickle.dump(answer, answers)
        answers.flush()

    try:
        reader = opened()
        for _ in range(passed):
            reader.read()
    except Exception as e:
        send(("error", e))
        return
    server = _Server(reader, memory)
    send(("result", None))
    while True:
        server.prepare()
        send(server.answer(*pickle.load(calls)))


def _become_reader(path: str) -> None:
    """What this process has of the one that it was forked from must not act here."""
    gc.disable()
    gc.freeze()
    faulthandler.disable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the other, which ends this one
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGABRT, signal.SIGXCPU):
        signal.signal(number, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):  # a library that dies has the last word
        os.dup2(null, fd)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError, ValueError):  # no such file; a lower limit
        seconds = _MIN_S + Path(path).stat().st_size // _BYTES_PER_S
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))


def _child(path: str, pipes: tuple[int, int], serving: tuple[Any, ...]) -> NoReturn:
    with contextlib.suppress(BaseException):  # the end of the other process ends this one
        _become_reader(path)
        calls, answers = os.fdopen(pipes[0], "rb"), os.fdopen(pipes[1], "wb")
        _serve(calls, answers, *serving)
    os._exit(0)


def _end(pid: int, pipes: Sequence[IO[bytes]], memory: int) -> int:
    """Kill the process, unless it is dead; its wait status."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    for pipe in pipes:
        with contextlib.suppress(OSError):
            pipe.close()
    os.close(memory)
    try:
        return os.waitpid(pid, 0)[1]
    except ChildProcessError:  # SIGCHLD is ignored
        return 0


def _death(path: str, library: str, status: int) -> CollectorError:
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    code = errno.ETIME if number == signal.SIGXCPU else errno.EFAULT
    how = signal.strsignal(number) if number else "it ended"
    return CollectorError(code, f"{path}: damaged ({library}: {how})")


class _Process:
    """A process that reads the file by what `opened` returns there."""

    def __init__(self, path: str, library: str, opened: Opener, passed: int) -> None:
        self._path, self._library = path, library
        fd = os.memfd_create("batches", os.MFD_CLOEXEC)
        calls, to = os.pipe()
        from_, answers = os.pipe()
        with warnings.catch_warnings():
            # Of threads, from Python 3.12 on: the process waits for none of them.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            os.close(to)
            os.close(from_)
            _child(self._path, (calls, answers), (_Memory(fd), opened, passed))
        os.close(calls)
        os.close(answers)
        self._to, self._from = os.fdopen(to, "wb"), os.fdopen(from_, "rb")
        self._memory = _Memory(fd)
        self._freed: deque[int] = deque()  # offsets that the process may use again
        self.pid = pid
        self.end = weakref.finalize(self, _end, pid, (self._to, self._from), fd)

    def receive(self) -> Any:
        """The answer to the last call; the first one comes when the file is open."""
        try:
            kind, value = pickle.load(self._from)
        except (EOFError, pickle.UnpicklingError):
            raise _death(self._path, self._library, self.end() or 0) from None
        if kind == "error":
            raise value
        return value

    def call(self, name: str, *args: Any) -> Any:
        with contextlib.suppress(BrokenPipeError):  # receive() says why
            pickle.dump((name, *args), self._to)
            self._to.flush()
        return self.receive()

    def read(self) -> tuple[str, pa.RecordBatch, float] | None:
        freed = [self._freed.popleft() for _ in range(len(self._freed))]
        found = self.call("read", freed)
        if found is None:
            return None
        name, offset, size, progress = found
        # The batch's buffers hold this view. The place is free again when the last one goes.
        view = memoryview(self._memory.at(offset, size))
        weakref.finalize(view, self._freed.append, offset)
        return name, pa.ipc.open_stream(pa.py_buffer(view)).read_next_batch(), progress


class SourceElsewhere(Source):
    """A source in a process of its own. Opening is slow."""

    library = "pagetape"  # that the process dies of, in messages

    def __init__(self, path: str) -> None:
        self._path = path
        self._passed = 0  # batches
        self._progress = 0.0
        self._process: _Process | None = None
        self._open()

    def _opened(self) -> Source:
        """Open the file; called in the process."""
        raise NotImplementedError

    def _forget(self, death: CollectorError) -> None:
        """Leave out what ended the process, so that another one can continue; or raise `death`."""
        raise death

    def _open(self) -> None:
        while True:
            process = _Process(self._path, self.library, self._opened, self._passed)
            try:
                process.receive()
            except CollectorError as e:
                process.end()
                self._forget(e)
            else:
                self._process = process
                return

    def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function of the process; of another one if that ends it."""
        while True:
            if self._process is None:
                raise ValueError("the source is closed")
            try:
                return function(self._process, *args)
            except CollectorError as e:
                if self._process.end.alive:
                    raise
                self._process = None
                self._forget(e)
            self._open()

    def read(self) -> tuple[str, pa.RecordBatch] | None:
        found = self._call(_Process.read)
        if found is None:
            self._progress = 1.0
            return None
        self._passed += 1
        name, batch, self._progress = found
        return name, batch

    @property
    def progress(self) -> float:
        return self._progress

    def _ask(self, name: str, *args: Any) -> Any:
        """An attribute of the source in the process, or what its method returns."""
        return self._call(_Process.call, name, *args)

    @property
    def facts(self) -> dict[str, Any]:
        found: dict[str, Any] = self._ask("facts")
        return found

    @property
    def kallsyms(self) -> str:
        return str(self._ask("kallsyms"))

    @property
    def bad_records(self) -> int:
        return int(self._ask("bad_records"))

    def _rows(self, table: str) -> list[dict[str, Any]]:
        return list(self._ask(table))

    def tracepoints(self) -> list[dict[str, Any]]:
        return self._rows("tracepoints")

    def rings(self) -> list[dict[str, Any]]:
        return self._rows("rings")

    def spools(self) -> list[dict[str, Any]]:
        return self._rows("spools")

    def lost(self) -> list[dict[str, Any]]:
        return self._rows("lost")

    def tasks(self) -> list[dict[str, Any]]:
        return self._rows("tasks")

    def stack(self, number: int) -> list[int]:
        return list(self._ask("stack", number))

    def close(self) -> None:
        if self._process:
            self._process.end()
        self._process = None

# SPDX-License-Identifier: Apache-2.0
"""Settings that come back: at the end of `pagetape ab`, after an error or a signal, after a kill.

A journal has each setting and its former value. It is on the disk before the first write, and
removed after the settings are restored. `pagetape ab` locks it while it runs: a journal without a
lock is that of a killed one, and the next `ab` restores it. The journal is in /run, which a boot
empties as it resets the settings.

A setting that has neither its former value nor one that pagetape wrote was changed by another
process. It stays as it is, and the user gets a line about it.
"""

import contextlib
import errno
import fcntl
import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pagetape.ab.switch import SWITCHES, Host, Switch
from pagetape.schemas.tape import TapeError
from pagetape.tapes import temporary

_FILE = "run/pagetape/ab.journal"
_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


@dataclass(frozen=True)
class Entry:
    """A setting before the first write, and the values that pagetape writes."""

    name: str
    file: str
    before: str
    written: list[str]

    @classmethod
    def parse(cls, found: dict[str, Any]) -> "Entry":
        """An entry of a journal; raises ValueError unless it is a switch with values."""
        written = found["written"]
        if not isinstance(written, list):
            raise ValueError("the written values are no list")
        entry = cls(found["name"], found["file"], found["before"], written)
        if (entry.name, entry.file) not in {(switch.name, switch.file) for switch in SWITCHES}:
            raise ValueError(f"no switch named {entry.name!r}")
        if not all(isinstance(value, str) for value in (entry.before, *entry.written)):
            raise ValueError("a value is no text")
        return entry

    def restore(self, host: Host) -> str:
        """Write the former value if pagetape changed it; one line about what was done."""
        now = host.read(self.file)
        if now == self.before:
            return f"{self.name} is {now}, as before"
        if now not in self.written:
            wrote = " and ".join(self.written)
            return (
                f"{self.name} is {now} and stays so: another process changed it (it was "
                f"{self.before} before, pagetape wrote {wrote})"
            )
        host.write(self.file, self.before)
        return f"{self.name} is {self.before} again (it was {now})"


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Signals that end the program wait until the end of this context."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Journal:
    """The journal of one machine, locked until close(). Raises TapeError if another `ab` runs."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._path = host.root / _FILE
        self._fd = self._lock()

    def _lock(self) -> int:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            while True:
                flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
                fd = os.open(self._path, flags, 0o600)
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if os.fstat(fd).st_nlink:  # its former owner did not just remove it
                        return fd
                except BlockingIOError as e:
                    words = f"/{_FILE}: another pagetape ab runs (process {_process(fd)})"
                    os.close(fd)
                    raise TapeError(errno.EBUSY, f"{words}: wait for its end") from e
                os.close(fd)
        except OSError as e:
            if isinstance(e, TapeError):
                raise
            raise TapeError(e.errno, f"/{_FILE}: {e.strerror}") from e

    def restore(self) -> list[str]:
        """Restore what the journal has, and empty it; a line for each setting.

        Raises TapeError if a setting cannot be written, or if the journal is none that this
        pagetape writes: the journal then stays.
        """
        found = self._parsed()
        lines = []
        if found.get("boot_id") == self._host.boot_id:
            try:
                lines = [entry.restore(self._host) for entry in found["settings"]]
            except TapeError as e:
                words = f"{e.strerror}; `pagetape ab --restore` tries again"
                raise TapeError(e.errno, words) from e
        elif found:
            lines = ["the journal is of an earlier boot: there is nothing to restore"]
        os.ftruncate(self._fd, 0)
        os.fsync(self._fd)
        return lines

    def _parsed(self) -> dict[str, Any]:
        try:
            return _parse(_text(self._fd))
        except (ValueError, KeyError, TypeError, RecursionError) as e:
            raise TapeError(
                errno.EINVAL,
                f"/{_FILE}: was edited, or is of another version of pagetape: restore the settings"
                " in it by hand, then remove it",
            ) from e

    def begin(self, entries: Sequence[Entry]) -> None:
        """Store the entries on the disk. From now on a kill leaves them to the next `ab`."""
        text = json.dumps(
            {
                "pid": os.getpid(),
                "boot_id": self._host.boot_id,
                "settings": [asdict(entry) for entry in entries],
            }
        )
        os.pwrite(self._fd, text.encode(), 0)
        os.fsync(self._fd)
        temporary.sync_directory(self._path.parent)

    def close(self) -> None:
        """Remove the journal if it is empty, and release it."""
        if not os.fstat(self._fd).st_size:
            self._path.unlink(missing_ok=True)
        os.close(self._fd)


def _text(fd: int) -> str:
    return os.pread(fd, 1 << 20, 0).decode("utf-8", "replace")


def _parse(text: str) -> dict[str, Any]:
    """The contents of a journal; raises ValueError, KeyError or TypeError for other contents.

    A journal without an end was killed before the first write to a setting, so it has nothing to
    restore.
    """
    if not text or (text.startswith('{"pid"') and not text.rstrip().endswith("}")):
        return {}
    found = json.loads(text)
    settings = [Entry.parse(one) for one in found["settings"]]
    if not settings or not isinstance(found["boot_id"], str):
        raise ValueError("no settings, or no boot")
    return {"boot_id": found["boot_id"], "settings": settings}


def _process(fd: int) -> str:
    try:
        return str(int(json.loads(_text(fd))["pid"]))
    except (ValueError, KeyError, TypeError):
        return "unknown"


def restore_left(host: Host) -> list[str]:
    """Restore the settings that a killed `ab` left behind; a line for each, none if there are none.

    Raises TapeError while another `ab` runs.
    """
    if not (host.root / _FILE).exists():
        return []
    with contextlib.closing(Journal(host)) as journal, _uninterrupted():
        return journal.restore()


class Changed:
    """A setting that pagetape changes and watches."""

    def __init__(self, host: Host, switch: Switch) -> None:
        self._host = host
        self._switch = switch
        self.before = host.read(switch.file)
        self._last = self.before

    def set(self, value: str) -> None:
        """Write a value; raises TapeError if another process changed the setting since the last."""
        self.check()
        self._host.write(self._switch.file, value)
        self._last = value

    def check(self) -> None:
        """Raise TapeError if the setting does not have the value that was written last."""
        now = self._host.read(self._switch.file)
        if now != self._last:
            name = self._switch.name
            words = f"{name} was {self._last} and is {now}: another process changed it"
            raise TapeError(errno.EBUSY, f"{words}; find that process, then start again")


@contextlib.contextmanager
def changing(
    host: Host, switch: Switch, values: Sequence[str], done: Callable[[str], None]
) -> Iterator[Changed]:
    """A setting that may be changed in this context, and has its former value after it.

    First restores what a killed `ab` left behind. `done` is called with a line for each setting
    that was restored, or that could not be.
    """
    with contextlib.closing(Journal(host)) as journal:
        with _uninterrupted():
            for line in journal.restore():
                done(f"left by a killed pagetape ab: {line}")
        changed = Changed(host, switch)
        followed = host.read(switch.follows) if switch.follows else None
        try:
            with _uninterrupted():
                journal.begin([Entry(switch.name, switch.file, changed.before, list(values))])
            yield changed
        finally:
            with _uninterrupted():
                for line in journal.restore():
                    done(line)
                if switch.follows and (now := host.read(switch.follows)) != followed:
                    name = switch.follows.removeprefix("proc/sys/").replace("/", ".")
                    done(f"{name} was {followed} and is {now}: pagetape did not write it")

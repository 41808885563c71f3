# SPDX-License-Identifier: Apache-2.0
"""Copies finished tapes from a directory of another machine, over ssh.

The other machine needs ssh, find and tar only. A tape in one file is finished: while it is recorded
it is a directory. A tape appears in the local directory whole, under its name there. Tapes that are
here already are not copied again, so a pull that was cut off goes on with the next tape.
"""

import errno
import os
import re
import shlex
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from pagetape.schemas.tape import Tape, TapeError
from pagetape.tapes import output, temporary

_PLACE = re.compile(r"(?P<host>\[[^\]]+\]|(?:[^@/:\s]+@)?(?:\[[^\]]+\]|[^/:\s]+)):(?P<dir>.*)")
_LIST = "find . -maxdepth 1 -type f -name '*.tape' ! -name '.*' -print0"
_SEND = "tar -cf - --null -T -"
_MOST_LIST = 1 << 26  # bytes of the names of a directory
_CHUNK = 1 << 20


@dataclass
class Pulled:
    """What a pull did."""

    made: list[str] = field(default_factory=list)  # names
    same: int = 0  # that were here before
    refused: list[dict[str, str]] = field(default_factory=list)  # tape and reason
    bytes: int = 0


@dataclass(frozen=True)
class Place:
    """A directory of another machine."""

    host: str
    directory: str

    @classmethod
    def of(cls, text: str) -> "Place":
        """The place HOST:DIR; raises TapeError for another text."""
        found = _PLACE.fullmatch(text)
        if found is None or found["host"].startswith("-"):
            raise TapeError(errno.EINVAL, f"{text}: not HOST:DIR (example: web1:/var/lib/pagetape)")
        return cls(found["host"].strip("[]"), found["dir"] or ".")


class _Remote:
    """Commands on the other machine, in the directory of its tapes."""

    def __init__(self, place: Place, ssh: Sequence[str]) -> None:
        self._place, self._ssh = place, ssh

    @contextmanager
    def run(self, command: str, given: bytes = b"") -> Iterator[IO[bytes]]:
        """The output of a command; raises TapeError with what it says if it fails."""
        line = f"cd {shlex.quote(self._place.directory)} && {command}"
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as said:
            stdin.write(given)
            stdin.seek(0)
            try:
                process = subprocess.Popen(
                    [*self._ssh, self._place.host, line],
                    stdin=stdin,
                    stdout=subprocess.PIPE,
                    stderr=said,
                )
            except OSError as e:
                raise TapeError(e.errno, f"{self._ssh[0]}: {e.strerror}") from e
            with process:
                assert process.stdout
                whole = True
                try:
                    yield process.stdout
                    while process.stdout.read(_CHUNK):  # the padding of tar
                        pass
                except tarfile.TarError:  # cut off: the command says why
                    whole = False
                except BaseException:
                    process.kill()
                    raise
            if process.returncode or not whole:
                said.seek(0)
                raise self._error(said.read(_CHUNK), process.returncode)

    def _error(self, said: bytes, status: int) -> TapeError:
        lines = said.decode(errors="replace").strip().splitlines()
        why = lines[-1] if lines else f"{self._ssh[0]} ended with status {status}"
        return TapeError(errno.EIO, f"{self._place.host}:{self._place.directory}: {why}")


def pull(place: Place, directory: Path, ssh: Sequence[str], said: Callable[[str], None]) -> Pulled:
    """Copy the finished tapes of `place` that `directory` lacks; `said` takes each new name."""
    new = not directory.exists()
    output.make_directory(directory, [])
    if new:
        directory.chmod(0o700)
    remote, done = _Remote(place, ssh), Pulled()
    with remote.run(_LIST) as listed:
        names = sorted(set(listed.read(_MOST_LIST).split(b"\0")) - {b""})
    wanted = []
    for name in map(_text, names):
        if "/" in name or name.startswith(".") or not name.endswith(".tape"):
            done.refused.append({"tape": name, "reason": f"{name}: not the name of a tape"})
        elif os.path.lexists(directory / name):
            done.same += 1
        else:
            wanted.append(name)
    if not wanted:
        return done
    with (
        remote.run(_SEND, b"".join(b"./%b\0" % os.fsencode(name) for name in wanted)) as sent,
        tarfile.open(fileobj=sent, mode="r|", errorlevel=1) as tar,
    ):
        for member in tar:
            name = member.name.removeprefix("./")
            if not member.isfile() or name not in wanted:
                done.refused.append({"tape": name, "reason": f"{name}: was not asked for"})
                continue
            source = tar.extractfile(member)
            assert source
            _store(source, directory / name, done, said)
    return done


def _text(name: bytes) -> str:
    return name.removeprefix(b"./").decode(errors="surrogateescape")


def _store(source: IO[bytes], path: Path, done: Pulled, said: Callable[[str], None]) -> None:
    """Store one tape, if it is whole."""
    with temporary.temporary(path.parent, f".{path.name}.", file_mode=0o600) as part:
        with part.open("wb") as file:
            shutil.copyfileobj(source, file, _CHUNK)
        size = part.stat().st_size
        try:
            if not Tape(part).complete:
                raise TapeError(errno.EINVAL, f"{path}: is unfinished, or was cut off")
        except TapeError as e:
            reason = str(e.strerror or e).replace(str(part), str(path))
            done.refused.append({"tape": path.name, "reason": reason})
            return
        temporary.sync(part)
        try:
            temporary.rename_new(part, path)
        except FileExistsError:  # another pull was faster
            done.same += 1
            return
    done.made.append(path.name)
    done.bytes += size
    said(path.name)

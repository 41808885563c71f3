# SPDX-License-Identifier: Apache-2.0
"""Copies of the /proc files of one machine in a directory.

The directory holds NAME.before and NAME.after, of before and after the trace, or plain NAME:
zoneinfo, buddyinfo, pagetypeinfo, vmstat, kpageflags, meminfo, version, cmdline, hostname, boot_id,
machine-id, config, `sysctls` as `sysctl -a` prints them, `numa_maps` (see numa_maps.py), and
`nodes` with lines "node0 cpus 0-1 distance 10 20". Each may end in .txt, .zst or both. The files
may also be below proc/, before/, after/, before/proc/ and after/proc/.

A text has the form of its file (proc_form.py) and agrees with the others (proc_agree.py), or
reading it raises an OSError that names the file and what is wrong.
"""

import errno
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from pagetape import proc_form
from pagetape.procfs import Proc

# Files of the state at one time, and files of facts that do not change.
STATE = ("zoneinfo", "buddyinfo", "pagetypeinfo", "vmstat", "kpageflags")
_FACTS = ("meminfo", "version", "cmdline", "hostname", "boot_id", "machine-id", "config", "sysctls")
_OTHERS = ("numa_maps", "nodes", r"ring-stats(?:\.cpu\d{1,5})?")
_STAGES = ("before", "after")

# Of each place below the directory: the stage of the files there without one in their names.
_PLACES = {"": "", "proc": ""}
_PLACES |= {place: stage for stage in _STAGES for place in (stage, f"{stage}/proc")}
_NAME = re.compile(
    rf"({'|'.join((*STATE, *_FACTS, *_OTHERS))})(?:\.({'|'.join(_STAGES)}))?(?:\.txt)?(?:\.zst)?"
)

_EXPECTED = "zoneinfo.before and zoneinfo.after, or plain zoneinfo, and others beside them"
_MOST_NAMES = 5  # of files in a message

TEXT_MB = 128  # longest text file; numa_maps of 10,000 processes is about that long
_FLAGS_GB = 8  # largest kpageflags in a .zst: 4 TB of memory
_CHUNK = 1 << 20


def _error(path: Path, why: str, number: int = errno.EBADMSG) -> OSError:
    return OSError(number, why, str(path))


class Copies(Proc):
    """The copies in a directory; raises OSError if they are none, or of unclear names."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._paths: dict[tuple[str, str], Path] = {}
        self._find()
        self.stages = self._found_stages()

    def _find(self) -> None:
        others: list[Path] = []
        for place, stage in _PLACES.items():
            folder = self.directory / place
            if place and not folder.is_dir():
                continue
            for path in sorted(folder.iterdir()):
                name = _NAME.fullmatch(path.name)
                if name is None or (stage and name[2]):
                    others.append(path)
                    continue
                key = (name[1], name[2] or stage)
                if key in self._paths:
                    both = " and ".join(
                        str(p.relative_to(self.directory)) for p in (self._paths[key], path)
                    )
                    raise _error(self.directory, f"{both} are two copies of the same")
                self._paths[key] = path
        self._refuse_other_names(others)

    def _refuse_other_names(self, others: list[Path]) -> None:
        """No copy of a file must be missed for its name."""
        found = {name for name, _ in self._paths}
        like = [
            str(path.relative_to(self.directory))
            for path in others
            if (name := re.match(rf"({'|'.join(STATE)})(?![a-z])", path.name))
            and name[1] not in found
        ]
        names = like or [path.name for path in others if path.name not in _PLACES]
        shown = ", ".join(names[:_MOST_NAMES]) + ", ..." * (len(names) > _MOST_NAMES)
        if like:
            raise _error(
                self.directory, f"expected {_EXPECTED}; found {shown}: rename", errno.ENOENT
            )
        if not self._paths:
            raise _error(
                self.directory,
                f"no copies of /proc files: expected {_EXPECTED}; found {shown or 'nothing'}",
                errno.ENOENT,
            )

    def _found_stages(self) -> tuple[str, ...]:
        of = {stage: path for (name, stage), path in self._paths.items() if name in STATE}
        if "" in of and len(of) > 1:
            staged = next(path for stage, path in of.items() if stage).name
            raise _error(
                of[""],
                f"neither .before nor .after, as {staged} is: rename it",
            )
        if of.keys() == {"after"}:
            raise _error(
                of["after"],
                "no copy from before the trace: the state at the start is unknown; rename the"
                " copies to .before if they are older than the trace",
            )
        return tuple(stage for stage in ("", *_STAGES) if stage in of)

    def path(self, name: str, stage: str = "") -> Path | None:
        """The file at that stage; without a stage, the first file that exists."""
        for one in (stage,) if stage else ("", *_STAGES):
            path = self._paths.get((name, one))
            if path is None:
                continue
            if path.exists() and not path.is_file():  # a FIFO has no end, a device may have none
                raise _error(path, "not a regular file", errno.EINVAL)
            return path
        return None

    def text(self, name: str, stage: str = "") -> str | None:
        data = self._read(name, stage)
        if data is None:
            return None
        try:
            return proc_form.checked(name, data)
        except proc_form.FormError as e:
            path = self.path(name, stage)
            assert path is not None
            raise _error(path, str(e)) from None

    def _read(self, name: str, stage: str) -> bytes | None:
        path = self.path(name, stage)
        if path is None:
            return None
        data = bytearray()  # grows in place: bytes would copy all for each chunk
        for chunk in _chunks(path):
            data += chunk
            if max(len(data), path.stat().st_size) > TEXT_MB << 20:
                raise _error(path, f"more than {TEXT_MB} MB of text", errno.EFBIG)
        return bytes(data)

    @contextmanager
    def kpageflags(self, stage: str, pages: int) -> Iterator[Path | None]:
        path = self.path("kpageflags", stage)
        if path is None:
            yield path
            return
        if path.suffix != ".zst":
            _check_length(path, _size(path), pages)
            yield path
            return
        left = wanted = min(8 * pages, _FLAGS_GB << 30)
        with tempfile.NamedTemporaryFile() as plain:
            for chunk in _chunks(path):
                if any(chunk):
                    plain.write(chunk[:left])
                else:  # a hole reads as zeros, and takes no space
                    plain.seek(min(len(chunk), left), os.SEEK_CUR)
                left -= min(len(chunk), left)
                if not left:
                    break
            plain.truncate()
            if left:
                _check_length(path, wanted - left, pages)
            yield Path(plain.name)


def _size(path: Path) -> int | None:
    """Bytes of the file; None for one of a live /proc, which has no size."""
    size = path.stat().st_size
    if not size:
        with path.open("rb") as file:
            return None if file.read(8) else 0
    return size


def _check_length(path: Path, size: int | None, pages: int) -> None:
    """kpageflags has 8 bytes for each page up to the end of the last zone (kpageflags_read)."""
    if size is not None and (size < 8 * pages or size % 8):
        raise _error(
            path,
            f"{size} bytes are the flags of {size // 8} pages, but the zones of zoneinfo end at"
            f" pfn {pages}: truncated, or of another machine",
        )


def _chunks(path: Path) -> Iterator[bytes]:
    """The contents of a file, decompressed if its name ends in .zst."""
    compression = "zstd" if path.suffix == ".zst" else None
    try:
        with pa.input_stream(str(path), compression=compression) as stream:
            while chunk := stream.read(_CHUNK):
                yield chunk
    except OSError as e:
        why = os.strerror(e.errno) if e.errno else str(e)
        raise _error(path, f"cannot be read: {why}", e.errno or errno.EBADMSG) from e


def saved(directory: Path) -> Copies:
    """The copies in `directory`; raises OSError if it cannot be read."""
    return Copies(directory)

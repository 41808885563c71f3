# SPDX-License-Identifier: Apache-2.0
"""A tape in one file: a zip archive of its tables, TABLE.arrow each. Small ones are deflated, as
they are schema for the most part; the others are stored, for their rows are compressed already.

Any zip program unpacks it into a directory of Arrow files, which is a tape as well. `event.arrow`
is the last entry: an archive that was cut off has all other tables whole, and the first events.
A reader needs no directory at the end: the header before each entry has its size. Without that
directory the archive is cut off: has_end().
"""

import contextlib
import io
import os
import shutil
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from pagetape.schemas import TABLES
from pagetape.schemas.form import BATCH_ROWS, WRITTEN, form_of, in_batches_of
from pagetape.schemas.table_file import Section, TableError, TableFile

SUFFIX = ".arrow"
_HEADER = struct.Struct("<4s5H3I2H")  # a local file header: APPNOTE.TXT 4.3.7
_MARK, _LAST_MARK = b"PK\3\4", b"PK\5\6"
_END_MARKS = (b"PK\1\2", b"PK\6\6", _LAST_MARK)
_END = struct.Struct("<4s16xH")  # the last record, before its comment: 4.3.16
_COMMENT = 0xFFFF  # most bytes of the comment
_BATCH_ROWS = 1 << 17  # of a table that is not in groups
_SMALL = 1 << 16  # bytes of an entry that is deflated
_LARGE = 0xFFFFFFFF  # the size is in the extra field 1
_EPOCH = (1980, 1, 1, 0, 0, 0)  # of every entry: equal rows are equal bytes


def is_bundle(path: Path) -> bool:
    """Whether a path looks like a tape in one file, readable or not."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEADER.size + 64)
    except OSError:
        return False
    name = head[_HEADER.size :].partition(SUFFIX.encode())[0]
    return head[:4] == _MARK and name.decode("ascii", "replace") in TABLES


def _sizes(extra: bytes) -> int:
    """The size of a large entry in its extra fields; raises TableError without one."""
    at = 0
    while at + 4 <= len(extra):
        kind, nr = struct.unpack_from("<2H", extra, at)
        if kind == 1 and nr >= 8 and at + 12 <= len(extra):
            return int(struct.unpack_from("<Q", extra, at + 4)[0])
        at += 4 + nr
    raise TableError("has no size")


def sections(path: Path) -> dict[str, Section]:
    """The place of each table in the file. Raises TableError, with the table's name in it, for an
    archive that is not stored as it should be, and OSError."""
    found: dict[str, Section] = {}
    real = Path(os.path.realpath(path))  # a link may lead to a tape
    with real.open("rb") as file:
        end, at = os.fstat(file.fileno()).st_size, 0
        while len(head := os.pread(file.fileno(), _HEADER.size, at)) == _HEADER.size:
            mark, _, flags, method, _, _, crc, size, whole, nr_name, nr_extra = _HEADER.unpack(head)
            if mark in _END_MARKS:
                break
            if mark != _MARK:
                raise TableError(f"is damaged at byte {at:,}: no entry begins there")
            at += _HEADER.size
            rest = os.pread(file.fileno(), nr_name + nr_extra, at)
            at += nr_name + nr_extra
            name = rest[:nr_name].decode("ascii", "replace").removesuffix(SUFFIX)
            small = method == zipfile.ZIP_DEFLATED and whole <= _SMALL
            large = bool(method) and not small and name in TABLES
            if large or flags & 9:  # encrypted, or with its size behind it
                what = f"'{name}'" if name in TABLES else "an entry"
                raise TableError(f"has {what} compressed or streamed; zip -0 stores it")
            size = _sizes(rest[nr_name:]) if size == _LARGE else size
            if name in found:
                raise TableError(f"has the table '{name}' twice")
            if name in TABLES:
                there = min(size, max(end - at, 0))
                known = crc if there == size else None
                found[name] = Section(real, at, there, whole if small else None, known)
            at = min(at + size, end)  # a size may be anything
    return found


def has_end(path: Path) -> bool:
    """Whether the file ends as an archive does: nothing behind its entries was cut off."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - _END.size - _COMMENT, 0))
        tail = file.read()
    at = tail.rfind(_LAST_MARK)
    if not 0 <= at <= len(tail) - _END.size:
        return False
    return at + _END.size + int(_END.unpack_from(tail, at)[1]) == len(tail)


def _merged(file: TableFile, name: str) -> bytes | None:
    """The table in large batches; None if its batches are large enough."""
    form = form_of(name)
    most = BATCH_ROWS if TABLES[name].group else _BATCH_ROWS
    if file.nr_batches <= 1 + 2 * file.num_rows // most:
        return None
    sink = io.BytesIO()
    schema = form.file_schema(file.metadata)
    with pa.ipc.new_file(sink, schema, options=WRITTEN) as out:
        for batch in in_batches_of(most, file.batches()):
            for stored, about in form.stored(batch, most):
                out.write_batch(stored, about)
    return sink.getvalue()


def _entries(directory: Path) -> Iterator[tuple[str, Path]]:
    names = [path.stem for path in directory.glob(f"*{SUFFIX}") if path.stem in TABLES]
    for name in sorted(names, key=lambda name: (name == "event", name)):
        yield name, directory / f"{name}{SUFFIX}"


def write(directory: Path, path: Path) -> None:
    """Write the closed tape in `directory` to the file `path`, which exists. Tables of many small
    batches get large ones. Raises TableError, and OSError."""
    with path.open("r+b") as out, zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, file in _entries(directory):
            entry = zipfile.ZipInfo(file.name, _EPOCH)
            entry.external_attr = 0o600 << 16
            merged = _merged(TableFile(Section(file), TABLES[name]), name)
            entry.file_size = file.stat().st_size if merged is None else len(merged)
            if entry.file_size <= _SMALL:
                entry.compress_type = zipfile.ZIP_DEFLATED
            with contextlib.ExitStack() as stack:
                source = io.BytesIO(merged) if merged else stack.enter_context(file.open("rb"))
                target = stack.enter_context(archive.open(entry, "w"))
                shutil.copyfileobj(source, target, 1 << 20)

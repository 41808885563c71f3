# SPDX-License-Identifier: Apache-2.0
"""The size of each batch of an Arrow IPC file, before pyarrow decodes one.

A compressed buffer begins with its decoded size, and pyarrow allocates that size before it reads
the rest: a file of 49 KB can ask for gigabytes. The sizes are in the file's metadata, which
pyarrow does not show. The metadata are FlatBuffers; File.fbs, Message.fbs and Schema.fbs of
https://arrow.apache.org/docs/format/Columnar.html define them.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

MAGIC = b"ARROW1\x00\x00"  # at the start of a file; without the zeros at its end

_CONTINUATION = 0xFFFFFFFF  # before each message
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3  # kinds of messages

# Numbers of the fields of the FlatBuffers tables.
_FOOTER_DICTIONARIES, _FOOTER_BATCHES = 2, 3
_MESSAGE_KIND, _MESSAGE_HEADER, _MESSAGE_BODY = 1, 2, 3
_DICTIONARY_DATA = 1
_BATCH_ROWS, _BATCH_BUFFERS, _BATCH_COMPRESSION = 0, 2, 3

_AT_ONCE = 1 << 20  # bytes of a body that are read at once

_BLOCK = struct.Struct("<qi4xq")  # of the footer: position, bytes of metadata, bytes of body
_BUFFER = struct.Struct("<qq")  # of a batch: position in the body, bytes
_SIZE = struct.Struct("<q")  # of a compressed buffer, at its begin: bytes in memory


@dataclass(frozen=True)
class Size:
    """The size of one batch."""

    rows: int
    decoded: int  # bytes in memory
    dictionary: bool  # the labels of a column, not rows


class _Table:
    """One table of a FlatBuffer. Raises struct.error for a position outside the buffer."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at
        vtable = at - self._read("<i", at)
        self._vtable, self._end = vtable, vtable + self._read("<H", vtable)

    def _read(self, form: str, at: int) -> int:
        if at < 0:
            raise struct.error("negative position")
        return int(struct.unpack_from(form, self._data, at)[0])

    def _place(self, field: int) -> int | None:
        """The position of a field; None if it has its default."""
        slot = self._vtable + 4 + 2 * field
        offset = self._read("<H", slot) if slot < self._end else 0
        return self._at + offset if offset else None

    def number(self, field: int, form: str = "<q") -> int:
        place = self._place(field)
        return 0 if place is None else self._read(form, place)

    def table(self, field: int) -> "_Table | None":
        place = self._place(field)
        return None if place is None else _Table(self._data, place + self._read("<I", place))

    def structs(self, field: int, form: struct.Struct) -> list[tuple[int, ...]]:
        """A vector of structs."""
        place = self._place(field)
        if place is None:
            return []
        start = place + self._read("<I", place)
        end = start + 4 + self._read("<I", start) * form.size
        if end > len(self._data):
            raise struct.error("vector beyond the end")
        return list(form.iter_unpack(self._data[start + 4 : end]))


def _root(data: bytes) -> _Table:
    return _Table(data, struct.unpack_from("<I", data)[0])


def _read(source: pa.NativeFile, at: int, nr: int) -> bytes:
    """`nr` bytes at position `at`; raises struct.error beyond the end of the file."""
    if at < 0 or nr < 0 or at + nr > source.size():
        raise struct.error("position beyond the end of the file")
    return bytes(source.read_at(nr, at))


def _decoded(source: pa.NativeFile, at: int, batch: _Table, body: int) -> int:
    """Decoded bytes of all buffers of a batch whose body of `body` bytes is at position `at`."""
    compressed = batch.table(_BATCH_COMPRESSION) is not None
    whole = _read(source, at, body) if compressed and body <= _AT_ONCE else None
    total = 0
    for place, nr in batch.structs(_BATCH_BUFFERS, _BUFFER):
        if place < 0 or nr < 0 or place + nr > body:
            raise struct.error("buffer outside its batch")
        if compressed and nr >= 8:
            head = _read(source, at + place, 8) if whole is None else whole[place : place + 8]
            (size,) = _SIZE.unpack(head)
            if size < -1:
                raise struct.error("negative size")
            nr = nr - 8 if size == -1 else size  # -1: this buffer is not compressed
        total += nr
    return total


def _message(source: pa.NativeFile, at: int, data: bytes) -> tuple[Size | None, int]:
    """The size of the batch in a message with the metadata `data` and its body at position `at`,
    and the position after the body. None: the message has no batch."""
    message = _root(data)
    body = message.number(_MESSAGE_BODY)
    if body < 0 or at + body > source.size():
        raise struct.error("body beyond the end of the file")
    kind, header = message.number(_MESSAGE_KIND, "<B"), message.table(_MESSAGE_HEADER)
    if kind not in (_DICTIONARY_BATCH, _RECORD_BATCH) or header is None:
        return None, at + body
    batch = header.table(_DICTIONARY_DATA) if kind == _DICTIONARY_BATCH else header
    if batch is None:
        raise struct.error("dictionary without values")
    rows = batch.number(_BATCH_ROWS)
    if rows < 0:
        raise struct.error("negative number of rows")
    decoded = _decoded(source, at, batch, body)
    return Size(rows, decoded, kind == _DICTIONARY_BATCH), at + body


def _metadata(source: pa.NativeFile, at: int) -> tuple[bytes, int]:
    """The metadata of the message at `at`, and the position of its body; none at the end."""
    mark, nr = struct.unpack("<II", _read(source, at, 8))
    if mark != _CONTINUATION:
        raise struct.error("no message")
    return _read(source, at + 8, nr), at + 8 + nr


def of_message(data: pa.Buffer) -> Size:
    """The size of the batch in a message of its own. Raises struct.error if it is damaged."""
    source = pa.BufferReader(data)
    about, body = _metadata(source, 0)
    size, _ = _message(source, body, about)
    if size is None:
        raise struct.error("a message without a batch")
    return size


def of_file(source: pa.NativeFile) -> list[Size]:
    """The sizes in a file with a footer, in its order. Raises struct.error if it is damaged."""
    end = source.size() - 10  # of the footer; then its size, and the magic
    (nr,) = struct.unpack("<I", _read(source, end, 4))
    footer = _root(_read(source, end - nr, nr))
    blocks = [
        *footer.structs(_FOOTER_DICTIONARIES, _BLOCK),
        *footer.structs(_FOOTER_BATCHES, _BLOCK),
    ]
    found = []
    for at, nr_metadata, nr_body in blocks:
        data, body = _metadata(source, at)
        size, after = _message(source, body, data)
        if size is None or (nr_metadata, nr_body) != (body - at, after - body):
            raise struct.error("a block without its batch")
        found.append(size)
    return found


def of_stream(source: pa.NativeFile) -> Iterator[Size]:
    """The sizes in a file without a footer, up to its torn end."""
    at = len(MAGIC)
    while True:
        try:
            data, body = _metadata(source, at)
            if not data:
                return  # the mark of the end
            size, at = _message(source, body, data)
        except struct.error:
            return
        if size is not None:
            yield size

# SPDX-License-Identifier: Apache-2.0
"""The objects of an archive: a directory, or a bucket of S3, GCS or Azure (obstore).

An object is put once and never changed: put_new() makes it, finds the same, or finds another one.
It appears whole. The names and the secrets of a bucket's server come from the environment, as its
vendor's tools take them: AWS_ENDPOINT_URL and AWS_ACCESS_KEY_ID, for example.
"""

from __future__ import annotations

import errno
import io
import os
import random
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import md5
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar
from urllib.parse import unquote, urlsplit

from pagetape.archive import directory, names
from pagetape.schemas import TABLES
from pagetape.schemas.tape import is_tape
from pagetape.tapes import output, temporary

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

SCHEMES = ("s3", "gs", "az", "file")
_MOST = 5_000_000_000  # bytes of an object that is put with a condition
_CHUNK = 1 << 20
_TRIES = 5  # of a request that its server, or the way to it, failed
_WAIT_S = 0.2  # before the second try; doubled for each further one
_METADATA = "http://169.254.169.254/"  # asked for keys by a client that has none
_FINAL = (errno.ENOENT, errno.ENXIO, errno.EACCES)  # another try finds the same

T = TypeVar("T")


class StoreError(OSError):
    """An archive cannot be read or written; the message has the place and the reason."""


class Put(StrEnum):
    """What put_new() found."""

    MADE = "made"
    SAME = "same"  # it was there before, with the same bytes
    OTHER = "other"  # an object of that name has other bytes; it stays


@dataclass(frozen=True)
class Object:
    """An object as a listing shows it."""

    name: str
    size: int
    etag: str | None  # changes with the contents
    modified: datetime


def is_url(text: str | os.PathLike[str]) -> bool:
    """Whether a text names an archive by a URL, not by a path."""
    scheme, found, _ = os.fspath(text).partition("://")
    return bool(found) and scheme in SCHEMES


def directory_of(text: str) -> Path:
    """The directory of a path, or of a URL with file://."""
    return Path(unquote(urlsplit(text).path)) if text.startswith("file://") else Path(text)


def is_archive(text: str) -> bool:
    """Whether a word is the place of an archive: a URL, or a directory with tapes as objects, or
    with Parquet files, which open_store() refuses."""
    return is_url(text) or (Path(text) / names.TAPES).is_dir() or _is_parquet(Path(text))


def split(url: str) -> tuple[str, str | None]:
    """The archive of a URL, and the name of a tape in it, if the URL has one."""
    place, found, name = url.rpartition(f"/{names.TAPES}/")
    known = names.parse(name := f"{names.TAPES}/{name}") if found else None
    return (place, name) if known else (url, None)


def open_store(url: str | Path, *, create: bool = False) -> Store:
    """The archive at a path or URL; with `create`, a missing directory is made.

    Raises StoreError for a URL that names none. A bucket is not asked yet.
    """
    text = os.fspath(url)
    scheme, found, _ = text.partition("://")
    if found and scheme not in SCHEMES:
        known = ", ".join(f"{one}://" for one in SCHEMES)
        raise StoreError(errno.EINVAL, f"{text}: not an archive: a directory, {known}")
    if not found or scheme == "file":
        return _open_directory(text, directory_of(text), create)
    if not urlsplit(text).netloc:
        raise StoreError(
            errno.EINVAL, f"{text}: names no bucket (example: {scheme}://bucket/fleet)"
        )
    return Store(text.rstrip("/"), _bucket(text), None)


def _open_directory(text: str, root: Path, create: bool) -> Store:
    from obstore.store import LocalStore

    if create:
        new = not root.exists()
        output.make_directory(root, [])
        if new:
            root.chmod(0o700)  # its owner may share it
    if not root.is_dir():
        why = "no such directory" if not root.exists() else "not a directory"
        raise StoreError(errno.ENOENT, f"{text}: {why}")
    if is_tape(root):
        raise StoreError(errno.EEXIST, f"{text}: is a tape, not an archive")
    if _is_parquet(root):
        why = "an archive of Parquet files, as pagetape wrote them until November 2026"
        step = "archive its tapes into a new directory; DuckDB and others read the Parquet"
        raise StoreError(errno.EPROTO, f"{text}: {why}: {step}")
    return Store(text.rstrip("/") or "/", LocalStore(root.resolve()), root.resolve())


def _is_parquet(root: Path) -> bool:
    """Whether it is an archive of a pagetape before this one: Parquet of each table."""
    return any(any((root / table).glob("host=*/date=*/*.parquet")) for table in TABLES)


def _bucket(text: str) -> ObjectStore:
    import obstore
    from obstore.store import from_url

    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    plain = urlsplit(text).scheme == "s3" and endpoint.startswith("http://")
    client: ClientConfig = {"timeout": "120s", "connect_timeout": "5s", "allow_http": plain}
    again: RetryConfig = {"max_retries": 6, "retry_timeout": timedelta(seconds=60)}
    try:
        return from_url(text, client_options=client, retry_config=again)
    except (obstore.exceptions.BaseError, ValueError) as e:
        raise _error(text, e) from e


def _error(place: str, error: BaseException) -> StoreError:
    """One line about a failed request."""
    import obstore

    text = str(error).partition("\n")[0].strip()
    if "<Code>NoSuchBucket</Code>" in str(error):
        return StoreError(errno.ENXIO, f"{place}: no such bucket")
    if isinstance(error, FileNotFoundError):
        return StoreError(errno.ENOENT, f"{place}: no such object")
    if _METADATA in text or "must be specified" in text:
        text = f"no keys in the environment (AWS_ACCESS_KEY_ID and the like: docs/fleet.md): {text}"
    kinds = obstore.exceptions
    final = (
        kinds.PermissionDeniedError,
        kinds.UnauthenticatedError,
        kinds.InvalidPathError,
        kinds.NotSupportedError,
        kinds.UnknownConfigurationKeyError,
        ValueError,
    )
    return StoreError(errno.EACCES if isinstance(error, final) else errno.EIO, f"{place}: {text}")


class Store:
    """The objects of one archive. Methods raise StoreError; several threads may use them."""

    def __init__(self, url: str, objects: ObjectStore, root: Path | None) -> None:
        self.url = url  # as it was given
        self.root = root  # of an archive that is a directory
        self._objects = objects

    def where(self, name: str) -> str:
        """The place of an object, for messages."""
        return f"{self.url}/{name}"

    def _tried(self, name: str, request: Callable[[], T]) -> T:
        """The answer to a request, which is sent again after a failure on the way.

        obstore itself repeats what a server answers with 5xx.
        """
        import obstore

        for nr in range(_TRIES):
            try:
                return request()
            except (obstore.exceptions.BaseError, FileNotFoundError, ValueError) as e:
                found = _error(self.where(name), e)
                if found.errno in _FINAL or nr == _TRIES - 1 or self.root is not None:
                    raise found from e
                time.sleep(_WAIT_S * 2**nr * random.uniform(0.5, 1.5))
        raise AssertionError

    def put_new(
        self, name: str, data: bytes | Path, before: Callable[[int], None] = lambda _bytes: None
    ) -> Put:
        """Put an object unless there is one of that name; `before` bytes of it are sent, it is
        called with their number."""
        with _source(data) as source:
            size = source.seek(0, os.SEEK_END)
            if size > _MOST:
                why = f"{size:,} bytes; the limit of an object is {_MOST:,}"
                raise StoreError(errno.EFBIG, f"{self.where(name)}: {why}")
            if not self._may_have(name):
                before(size)
                if self._put(name, data, source):
                    return Put.MADE
            elif self.root is not None:  # what a killed process left beside it
                directory.remove_leftovers(self.root / name)
            return Put.SAME if self._has(name, source, size) else Put.OTHER

    def _may_have(self, name: str) -> bool:
        """Whether there is an object of that name. A client that may not list gets no answer."""
        try:
            return self.head(name) is not None
        except StoreError as e:
            if e.errno != errno.EACCES:
                raise
            return False

    def _put(self, name: str, data: bytes | Path, source: BinaryIO) -> bool:
        """Whether the object was put; False if there is one of its name."""
        import obstore

        if self.root is not None:
            source.seek(0)
            try:
                inputs = [self.root, *([data] if isinstance(data, Path) else [])]
                mode = output.private_mode(self.root, inputs)
                return directory.put(self.root, name, source, mode)
            except OSError as e:
                raise StoreError(e.errno, f"{self.where(name)}: {e.strerror or e}") from e

        def put() -> bool:
            source.seek(0)
            try:
                obstore.put(self._objects, name, source, mode="create")
            except obstore.exceptions.AlreadyExistsError:
                return False
            return True

        return self._tried(name, put)

    def _has(self, name: str, source: BinaryIO, size: int) -> bool:
        """Whether the object has the bytes of `source`."""
        import obstore

        found = self.head(name)
        if found is None or found.size != size:
            return False
        source.seek(0)
        if self.root is None and found.etag:
            hashed = md5(usedforsecurity=False)
            while part := source.read(_CHUNK):
                hashed.update(part)
            if found.etag.strip('"') == hashed.hexdigest():
                return True

        def equal() -> bool:
            source.seek(0)
            pieces = obstore.get(self._objects, name).stream(_CHUNK)
            return all(bytes(piece) == source.read(len(piece)) for piece in pieces)

        return self._tried(name, equal)

    def head(self, name: str) -> Object | None:
        """An object; None if there is none of that name."""
        import obstore

        self._check(name)
        try:
            return _object(self._tried(name, lambda: obstore.head(self._objects, name)))
        except StoreError as e:
            if e.errno == errno.ENOENT:
                return None
            raise

    def list(self, prefix: str = "") -> Iterator[Object]:
        """The objects whose names begin with the segments of `prefix`, in no promised order."""
        import obstore

        found: Iterator[Any] | None = None
        last: str | None = None

        def page() -> Any:  # after a failure the listing goes on behind the last name
            nonlocal found
            try:
                found = found or iter(
                    obstore.list(self._objects, prefix=prefix or None, offset=last, chunk_size=1000)
                )
                return next(found, ())
            except BaseException:
                found = None
                raise

        while objects := self._tried(prefix, page):
            last = objects[-1]["path"]
            for one in objects:
                if not one["path"].rpartition("/")[2].startswith("."):  # incomplete
                    yield _object(one)

    def below(self, prefix: str) -> Sequence[str]:
        """The segments that follow `prefix` in the names of objects, sorted: its directories."""
        import obstore

        found = self._tried(
            prefix, lambda: obstore.list_with_delimiter(self._objects, prefix=prefix)
        )
        return sorted(one.rstrip("/").rpartition("/")[2] for one in found["common_prefixes"])

    def _check(self, name: str) -> None:
        """Raise StoreError for what others put into a directory: reading a FIFO has no end."""
        if self.root is None:
            return
        mode = 0
        with suppress(OSError, ValueError):  # obstore says what is wrong
            mode = (self.root / name).lstat().st_mode
        if mode and not stat.S_ISREG(mode):
            raise StoreError(errno.EINVAL, f"{self.where(name)}: not a regular file")

    def get(self, name: str) -> bytes:
        """The bytes of an object."""
        import obstore

        self._check(name)
        return self._tried(name, lambda: bytes(obstore.get(self._objects, name).bytes()))

    def get_range(self, name: str, start: int, length: int) -> bytes:
        """Some bytes of an object; fewer at its end."""
        import obstore

        self._check(name)
        return self._tried(
            name,
            lambda: bytes(obstore.get_range(self._objects, name, start=start, length=length)),
        )

    def local(self, name: str, directory: Path) -> Path:
        """An object as a file: in its place in an archive that is a directory, else fetched into
        this directory."""
        path = (self.root or directory) / (name if self.root else Path(name).name)
        if self.root is None:
            self.fetch(name, path)
        self._check(name)
        if not path.exists():
            raise StoreError(errno.ENOENT, f"{self.where(name)}: no such object")
        return path

    def fetch(self, name: str, to: Path) -> None:
        """Store an object as the file `to`, which appears whole."""
        import obstore

        self._check(name)
        try:
            with temporary.temporary(to.parent, f".{to.name}.", file_mode=0o600) as part:

                def fetch() -> None:
                    with part.open("wb") as file:
                        for piece in obstore.get(self._objects, name).stream(_CHUNK):
                            file.write(piece)

                self._tried(name, fetch)
                part.replace(to)
        except StoreError:
            raise
        except OSError as e:
            raise StoreError(e.errno, f"{to}: {e.strerror or e}") from e

    def delete(self, name: str) -> None:
        """Remove an object; none is no error."""
        import obstore

        try:
            self._tried(name, lambda: obstore.delete(self._objects, name))
        except StoreError as e:
            if e.errno != errno.ENOENT:
                raise


def _object(found: Any) -> Object:
    return Object(found["path"], found["size"], found["e_tag"], found["last_modified"])


def _source(data: bytes | Path) -> AbstractContextManager[BinaryIO]:
    if isinstance(data, bytes):
        return nullcontext(io.BytesIO(data))
    try:
        return data.open("rb")
    except OSError as e:
        raise StoreError(e.errno, f"{data}: {e.strerror}") from e

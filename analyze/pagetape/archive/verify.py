# SPDX-License-Identifier: Apache-2.0
"""Checks the tapes of an archive: each is fetched, hashed, and read.

An object is sound if its bytes have the hash that the bucket stored (of S3, where that is an MD5),
if its tables have their checksums and can be read, if the recording is finished, and if the tape in
it has the name of the object.
"""

import errno
from hashlib import file_digest
from pathlib import Path

from pagetape.archive import names, put
from pagetape.archive.store import Object, Store, StoreError
from pagetape.schemas.tape import Tape, TapeError
from pagetape.tapes import temporary

_MD5_DIGITS = 32


def problem(store: Store, found: Object) -> str | None:
    """What is wrong with an object; None if it is sound. Raises StoreError without an answer."""
    with temporary.scratch("verify") as room:
        file = room / "it.tape"
        try:
            store.fetch(found.name, file)
        except StoreError as e:
            if e.errno not in (errno.EINVAL, errno.ENOENT):
                raise
            return str(e.strerror).removeprefix(f"{store.where(found.name)}: ")
        return _size(file, found) or _hash(store, file, found) or _contents(file, found.name)


def _size(file: Path, found: Object) -> str | None:
    size = file.stat().st_size
    return f"has {size:,} bytes, {found.size:,} were listed" if size != found.size else None


def _hash(store: Store, file: Path, found: Object) -> str | None:
    known = (found.etag or "").strip('"')
    if store.root is not None or len(known) != _MD5_DIGITS or not known.isalnum():
        return None  # no hash: of a directory, or of a bucket that makes its etags otherwise
    with file.open("rb") as opened:
        its = file_digest(opened, "md5").hexdigest()
    return f"has the MD5 {its}, the bucket stored {known}" if its != known else None


def _contents(file: Path, name: str) -> str | None:
    try:
        tape = Tape(file)
        put.check_whole(tape)
        its = names.object_name(tape)
    except TapeError as e:
        return str(e.strerror or e).removeprefix(f"{file}: ")
    return f"has the tape {its}" if its != name else None

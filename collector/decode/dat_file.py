# SPDX-License-Identifier: Apache-2.0
"""trace.dat files, read in a process of their own.

libtracecmd trusts the sizes in a file. A damaged page leads it to addresses behind the page, where
there may be memory or none: a file that it survived once may end it the next time. The process
that it ends has noted which page it was at. Another process leaves that page out and continues.
"""

from __future__ import annotations

import errno
import mmap
from collections.abc import Sequence

from pagetape._collector import CollectorError, DatPage, DatReader
from pagetape.source_elsewhere import SourceElsewhere

_MOST_BAD = 64  # pages that may end a process; after each one the file is read again


class DatFile(SourceElsewhere):
    """A trace.dat file of any version, with all its instances in one order.

    Opening is slow. A file that ends each process that reads it is refused.
    """

    library = "libtracecmd"

    def __init__(self, path: str, migratetypes: Sequence[str] = ()) -> None:
        self._migratetypes = tuple(migratetypes)
        self._loading = mmap.mmap(-1, mmap.PAGESIZE)  # shared with the processes
        self._bad: list[DatPage] = []
        super().__init__(path)

    def _opened(self) -> DatReader:
        DatPage.clear(self._loading)
        return DatReader(self._path, self._migratetypes, self._loading, tuple(self._bad))

    def _forget(self, death: CollectorError) -> None:
        """Leave out the page that ended the process; raise an error if that is futile."""
        page = DatPage.loading(self._loading)
        if page is None or death.errno not in (errno.EFAULT, errno.ETIME):
            raise death
        if death.errno == errno.ETIME or page in self._bad or len(self._bad) == _MOST_BAD:
            raise CollectorError(death.errno, f"{death.strerror}, at CPU {page.cpu}")
        self._bad.append(page)

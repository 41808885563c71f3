# SPDX-License-Identifier: Apache-2.0
"""Trace files of other tools than trace-cmd, read in a process of their own.

The file is mapped, so a file that shrinks while it is read would end this process.
"""

from __future__ import annotations

from collections.abc import Sequence

from pagetape._collector import ForeignReader, Found
from pagetape.gfp_names import gfp_names
from pagetape.source_elsewhere import SourceElsewhere


class ForeignFile(SourceElsewhere):
    """A text of ftrace, trace-cmd report or perf script, a perf.data or a Perfetto trace.

    `kernel` is the release of the traced kernel; without it that of the file, else the newest era
    gives the names and numbers of gfp flags.
    """

    def __init__(
        self, path: str, migratetypes: Sequence[str] = (), kernel: str | None = None
    ) -> None:
        self._migratetypes = tuple(migratetypes)
        self._kernel = kernel
        super().__init__(path)

    def _opened(self) -> ForeignReader:
        reader = ForeignReader(self._path)
        names = gfp_names(self._kernel or reader.found.kernel)
        reader.begin(self._migratetypes, names.groups, names.bits)
        return reader

    @property
    def found(self) -> Found:
        """What the file has and lacks."""
        found: Found = self._ask("found")
        return found

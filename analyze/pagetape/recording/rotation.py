# SPDX-License-Identifier: Apache-2.0
"""Writes the segments of a session to disk: as one tape, or as one tape per segment."""

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pagetape.recording.capture import Row, Sink
from pagetape.recording.session import Boundary
from pagetape.recording.tape_dir import TapeDir
from pagetape.schemas.tape import Writer
from pagetape.tapes import output
from pagetape.tapes.spool import Spool

if TYPE_CHECKING:
    from pagetape.recording.private import Veil


class OneTape:
    """A segment that becomes the tape `path`; with a veil, a private one."""

    def __init__(
        self,
        path: Path,
        *,
        replace: bool = False,
        defer: bool = False,
        facts: dict[str, Any] | None = None,
        veil: "Veil | None" = None,
    ) -> None:
        self.path = path
        self.tape: Writer | None = None
        self._replace = replace
        self._defer = defer
        self._facts = facts or {}
        self._veil = veil
        self._rows: Sink | None = None  # to the tape, or through its veil
        self._home: Spool | None = None

    def home(self) -> Spool | None:
        if self._veil:  # a spool would contain the unredacted data
            return None
        self._home = Spool(self.path, replace=self._replace, defer=self._defer)
        return self._home

    def begin(self, start: Boundary) -> None:
        facts = start.facts | self._facts
        public = self._veil.facts(facts) if self._veil else facts
        if self._home:
            self.tape = Writer(self.path, public, over=True, at=self._home.above)
        else:
            self.tape = Writer(self.path, public, replace=self._replace)
        self._rows = self._veil.over(self.tape) if self._veil else self.tape
        start.state.numbered(0).write(self._rows)

    def write(self, name: str, batch: pa.RecordBatch) -> None:
        assert self._rows is not None
        self._rows.write(name, batch)

    def rows(self, name: str, rows: list[Row]) -> None:
        assert self._rows is not None
        self._rows.rows(name, rows)

    def end(self, end: Boundary) -> None:
        assert self._rows is not None
        end.state.numbered(1).write(self._rows)

    def close(self) -> None:
        if self.tape is not None:
            with contextlib.suppress(OSError):  # closed before
                self.path = self.tape.where() or self.path
            self.tape.close()


class Rotation:
    """Each segment becomes a tape in the directory, which drops its oldest tapes."""

    def __init__(
        self, tape_dir: TapeDir, done: Callable[[Path], None], veil: "Veil | None" = None
    ) -> None:
        self._tape_dir = tape_dir
        self._veil = veil  # one for all: they are one machine
        self._done = done  # called for each finished tape
        self._tape: OneTape | None = None
        self._first: OneTape | None = None

    @property
    def tape(self) -> Writer | None:
        return self._tape.tape if self._tape else None

    def _place(self, at: datetime) -> OneTape:
        return OneTape(self._tape_dir.place(at), facts=self._tape_dir.mark(), veil=self._veil)

    def home(self) -> Spool | None:
        self._first = self._place(datetime.now(UTC))
        spool = self._first.home()
        if spool:
            spool.left = self._finished
        return spool

    def begin(self, start: Boundary) -> None:
        self._tape, self._first = self._first or self._place(start.at), None
        self._tape.begin(start)

    def write(self, name: str, batch: pa.RecordBatch) -> None:
        assert self._tape is not None
        self._tape.write(name, batch)

    def rows(self, name: str, rows: list[Row]) -> None:
        assert self._tape is not None
        self._tape.rows(name, rows)

    def end(self, end: Boundary) -> None:
        assert self._tape is not None
        self._tape.end(end)
        self._tape.close()
        closed, self._tape = self._tape.path, None
        if self._veil:  # else its spool is in it yet
            self._finished(closed)

    def _finished(self, path: Path) -> None:
        output.put_in_one_file(path)
        self._done(path)
        self._tape_dir.tidy()

    def close(self) -> None:
        if self._tape is not None:
            self._tape.close()
        self._tape_dir.close()

# SPDX-License-Identifier: Apache-2.0
"""Fans out a few streams to many readers, on several threads.

A *group* is a stream and its readers; each reader reads the whole stream. The stream is read once:
an item stays in memory until every reader of the group has read it. At most `WINDOW` items are in
memory. The reader furthest behind goes first, so that the readers of a group stay together.
Several groups run at once if one group does not have work for all threads.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Condition, Thread
from typing import Any, Protocol

WINDOW = 4

Work = Callable[[], None]


class Reader(Protocol):
    """A reader of a stream. Its methods are called one at a time, on any thread."""

    def feed(self, item: Any) -> None: ...
    def finish(self) -> None: ...
    def close(self) -> None:
        """Called last, with or without a finish() before it."""


@dataclass
class _Place:
    """The position of a reader in its stream."""

    reader: Reader
    at: int = 0
    busy: bool = False


class Group:
    """`nr` readers of one stream; `start` makes stream and readers, on one of the threads."""

    def __init__(
        self, nr: int, start: Callable[[], tuple[Iterator[Any], Sequence[Reader]]]
    ) -> None:
        self.nr = nr
        self._start = start
        self._stream: Iterator[Any] = iter(())
        self._places: list[_Place] | None = (
            None  # None until started, then readers that are not finished
        )
        self._window: deque[Any] = deque()
        self._first = 0  # number of the item at the head of the window
        self._reading = False
        self._over = False

    def take(self) -> tuple[Work, Work] | None:
        """Work that can run now, and the function that records its end; None if there is none."""
        if self._places is None:
            return None if self._reading else self._take_next(self._open)
        idle = [place for place in self._places if not place.busy]
        place = min(idle, key=lambda place: place.at, default=None)
        if place is not None and place.at < self._first + len(self._window):
            return self._take_feed(place, self._window[place.at - self._first])
        if place is not None and self._over:
            return self._take_finish(place)
        if self._reading or self._over or len(self._window) == WINDOW:
            return None
        return self._take_next(self._read)

    def _open(self) -> None:
        self._stream, readers = self._start()
        self._places = [_Place(reader) for reader in readers]

    def _read(self) -> None:
        item = next(self._stream, None)
        if item is None:
            self._over = True
        else:
            self._window.append(item)

    def _take_next(self, work: Work) -> tuple[Work, Work]:
        self._reading = True

        def note() -> None:
            self._reading = False

        return work, note

    def _take_feed(self, place: _Place, item: Any) -> tuple[Work, Work]:
        place.busy = True

        def note() -> None:
            place.at += 1
            place.busy = False
            if self._places and all(place.at > self._first for place in self._places):
                self._window.popleft()
                self._first += 1

        return lambda: place.reader.feed(item), note

    def _take_finish(self, place: _Place) -> tuple[Work, Work]:
        place.busy = True

        def work() -> None:
            place.reader.finish()
            place.reader.close()

        def note() -> None:
            assert self._places is not None
            self._places.remove(place)

        return work, note

    @property
    def finished(self) -> bool:
        return self._places == []

    def abandon(self) -> None:
        """Close all readers. The caller ensures that no reader is in a call."""
        for place in self._places or ():
            place.reader.close()


class _Pool:
    """The shared state of the threads."""

    def __init__(self, groups: Sequence[Group], most: int) -> None:
        self._waiting = deque(groups)
        self._under_way: list[Group] = []
        self._most = most
        self._changed = Condition()
        self._error: BaseException | None = None

    def _take(self) -> tuple[Work, Work] | None:
        for group in self._under_way:
            if (taken := group.take()) is not None:
                return taken
        readers = sum(group.nr for group in self._under_way)
        if self._waiting and (not readers or readers + self._waiting[0].nr <= self._most):
            self._under_way.append(self._waiting.popleft())
            return self._under_way[-1].take()
        return None

    def work(self) -> None:
        """The body of one thread: run work until none is left."""
        while self._turn():
            pass

    def _turn(self) -> bool:
        """Wait for work and do it; False if there is none left."""
        with self._changed:
            while (taken := self._take()) is None or self._error:
                if self._error or not (self._waiting or self._under_way):
                    return False
                self._changed.wait()
        work, note = taken
        try:
            work()
        except BaseException as e:
            self.stop(e)
        with self._changed:
            note()
            del taken, work, note  # they refer to the reader
            self._under_way = [group for group in self._under_way if not group.finished]
            self._changed.notify_all()
        return True

    def stop(self, error: BaseException) -> None:
        """Keep all threads from starting new work."""
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def close(self) -> None:
        for group in self._under_way:
            group.abandon()
        if self._error:
            raise self._error


def read_all(groups: Sequence[Group], threads: int, most: int) -> None:
    """Read every group to its end, on `threads` threads.

    At most `most` readers are open at a time, unless one group has more. The first error stops
    all groups and is raised.
    """
    pool = _Pool(groups, most)
    workers = [Thread(target=pool.work, daemon=True) for _ in range(threads)]
    for worker in workers:
        worker.start()
    try:
        for worker in workers:
            worker.join()
    except BaseException as e:  # Ctrl-C or SIGTERM
        pool.stop(e)
        for worker in workers:
            worker.join()
    pool.close()

# SPDX-License-Identifier: Apache-2.0
"""Many readers of a few streams: each reads all of it, in order, and none runs far ahead."""

import threading
import time
import weakref
from collections.abc import Iterator

import pytest

from pagetape.replaying.fanout import WINDOW, Group, read_all


class Recorder:
    """A reader that records its calls."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.calls: list[object] = []
        self.fails_at = fails_at
        self._inside = threading.Lock()

    def feed(self, item: object) -> None:
        assert self._inside.acquire(blocking=False), "two calls at a time"
        if item == self.fails_at:
            raise OSError("broken")
        self.calls.append(item)
        self._inside.release()

    def finish(self) -> None:
        self.calls.append("finished")

    def close(self) -> None:
        self.calls.append("closed")


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_reader_gets_its_whole_stream_in_order(threads: int) -> None:
    readers = [[Recorder() for _ in range(nr)] for nr in (3, 1, 4, 2)]

    def group(number: int) -> Group:
        stream = iter(range(100 * number, 100 * number + 40))
        return Group(len(readers[number]), lambda: (stream, readers[number]))

    read_all([group(number) for number in range(4)], threads, most=5)
    for number, of_group in enumerate(readers):
        whole = [*range(100 * number, 100 * number + 40), "finished", "closed"]
        assert [reader.calls for reader in of_group] == [whole] * len(of_group)


def test_the_stream_waits_for_the_slowest() -> None:
    slow, fast = Recorder(), Recorder()
    lead: list[int] = []

    def stream() -> Iterator[int]:
        for item in range(50):
            lead.append(item - min(len(slow.calls), len(fast.calls)))
            yield item

    feed = slow.feed
    slow.feed = lambda item: (time.sleep(0.001), feed(item))[1]  # type: ignore[method-assign]
    read_all([Group(2, lambda: (stream(), [slow, fast]))], 2, most=2)
    assert max(lead) <= WINDOW


def test_no_more_readers_than_allowed_are_open_at_once() -> None:
    open_readers: set[int] = set()
    most = 0

    class Counted(Recorder):
        def close(self) -> None:
            open_readers.discard(id(self))

    def start() -> tuple[Iterator[int], list[Counted]]:
        nonlocal most
        readers = [Counted(), Counted()]
        open_readers.update(map(id, readers))
        most = max(most, len(open_readers))
        return iter(range(10)), readers

    read_all([Group(2, start) for _ in range(8)], 4, most=4)
    assert most <= 4
    assert open_readers == set()


def test_a_finished_reader_is_freed() -> None:
    """A reader may hold much memory."""
    alive: weakref.WeakSet[Recorder] = weakref.WeakSet()
    most = 0

    def start() -> tuple[Iterator[int], list[Recorder]]:
        nonlocal most
        readers = [Recorder(), Recorder()]
        alive.update(readers)
        most = max(most, len(alive))
        return iter(range(3)), readers

    groups = [Group(2, start) for _ in range(9)]
    read_all(groups, 2, most=2)
    assert (most, len(alive)) == (2, 0)


def test_the_first_error_ends_it_all() -> None:
    good, bad, never = Recorder(), Recorder(fails_at=7), Recorder()
    groups = [
        Group(2, lambda: (iter(range(1000)), [good, bad])),
        Group(1, lambda: (iter(range(10)), [never])),
    ]
    with pytest.raises(OSError, match="broken"):
        read_all(groups, 2, most=2)
    assert bad.calls == [*range(7), "closed"]
    assert good.calls[-1] == "closed" and "finished" not in good.calls
    assert never.calls == []

# SPDX-License-Identifier: Apache-2.0
"""Many readers of a few streams: each reader gets its whole stream in order; none runs ahead."""

import threading
import time
import weakref
from collections.abc import Iterator

import pytest

from pagetape.replaying.fanout import WINDOW, Group, read_all


class Ear:
    """A reader that records what it receives."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.received: list[object] = []
        self.fails_at = fails_at
        self._inside = threading.Lock()

    def feed(self, item: object) -> None:
        assert self._inside.acquire(blocking=False), "two calls at a time"
        if item == self.fails_at:
            raise OSError("deaf")
        self.received.append(item)
        self._inside.release()

    def finish(self) -> None:
        self.received.append("finished")

    def close(self) -> None:
        self.received.append("closed")


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_reader_receives_its_whole_stream_in_order(threads: int) -> None:
    ears = [[Ear() for _ in range(nr)] for nr in (3, 1, 4, 2)]

    def group(number: int) -> Group:
        stream = iter(range(100 * number, 100 * number + 40))
        return Group(len(ears[number]), lambda: (stream, ears[number]))

    read_all([group(number) for number in range(4)], threads, most=5)
    for number, of_group in enumerate(ears):
        whole = [*range(100 * number, 100 * number + 40), "finished", "closed"]
        assert [reader.received for reader in of_group] == [whole] * len(of_group)


def test_the_stream_waits_for_the_slowest() -> None:
    slow, fast = Ear(), Ear()
    lead: list[int] = []

    def stream() -> Iterator[int]:
        for item in range(50):
            lead.append(item - min(len(slow.received), len(fast.received)))
            yield item

    hear = slow.feed
    slow.feed = lambda item: (time.sleep(0.001), hear(item))[1]  # type: ignore[method-assign]
    read_all([Group(2, lambda: (stream(), [slow, fast]))], 2, most=2)
    assert max(lead) <= WINDOW


def test_the_number_of_readers_at_once_is_limited() -> None:
    there: set[int] = set()
    most = 0

    class Guest(Ear):
        def close(self) -> None:
            there.discard(id(self))

    def start() -> tuple[Iterator[int], list[Guest]]:
        nonlocal most
        guests = [Guest(), Guest()]
        there.update(map(id, guests))
        most = max(most, len(there))
        return iter(range(10)), guests

    read_all([Group(2, start) for _ in range(8)], 4, most=4)
    assert most <= 4
    assert there == set()


def test_who_has_finished_is_forgotten() -> None:
    """A reader may hold much memory."""
    alive: weakref.WeakSet[Ear] = weakref.WeakSet()
    most = 0

    def start() -> tuple[Iterator[int], list[Ear]]:
        nonlocal most
        ears = [Ear(), Ear()]
        alive.update(ears)
        most = max(most, len(alive))
        return iter(range(3)), ears

    groups = [Group(2, start) for _ in range(9)]
    read_all(groups, 2, most=2)
    assert (most, len(alive)) == (2, 0)


def test_the_first_error_ends_it_all() -> None:
    good, bad, never = Ear(), Ear(fails_at=7), Ear()
    groups = [
        Group(2, lambda: (iter(range(1000)), [good, bad])),
        Group(1, lambda: (iter(range(10)), [never])),
    ]
    with pytest.raises(OSError, match="deaf"):
        read_all(groups, 2, most=2)
    assert bad.received == [*range(7), "closed"]
    assert good.received[-1] == "closed" and "finished" not in good.received
    assert never.received == []

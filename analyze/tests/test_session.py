# SPDX-License-Identifier: Apache-2.0
"""When a session cuts, and why."""

from pagetape.load import Load
from pagetape.session import Requests
from pagetape.triggers import Firing


def fired(ts: int) -> Firing:
    return Firing("signal", None, "", ts)


def test_a_firing_belongs_to_the_segment_that_it_was_in() -> None:
    requests = Requests(Load((), None))
    assert not requests.pending
    requests.fire(fired(50))
    assert requests.pending
    assert requests.done(40) is None  # a segment that ended before it
    assert requests.pending
    assert requests.done(60) == fired(50)
    assert not requests.pending


def test_the_first_of_several_firings_counts() -> None:
    requests = Requests(Load((), None))
    requests.fire(fired(50))
    requests.fire(fired(51))
    assert requests.done(60) == fired(50)
    assert requests.done(70) is None


def test_a_cut_without_a_firing_is_over_with_the_segment() -> None:
    requests = Requests(Load((), None))
    requests.cut()
    assert requests.pending
    assert requests.done(10) is None
    assert not requests.pending


def test_whoever_waits_for_the_load_is_woken_by_a_request() -> None:
    load = Load((), None)
    requests = Requests(load)
    requests.cut()
    assert load.wait(60) is False  # at once
    load.stop()
    assert load.wait(60) is True


def test_a_load_is_over_when_its_command_or_its_time_is() -> None:
    load = Load(("false",), 60)
    load.start()
    assert load.wait() is True
    assert load.finish() == 1
    load = Load(("sleep", "60"), 0.01)
    load.start()
    while not load.wait():
        pass
    assert load.finish() == 0

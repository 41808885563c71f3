# SPDX-License-Identifier: Apache-2.0
"""The cuts of a session, and their causes."""

from pagetape.recording.session import Requests
from pagetape.recording.triggers import Firing
from pagetape.recording.workload import Workload


def fired(ts: int) -> Firing:
    return Firing("signal", None, "", ts)


def test_a_firing_belongs_to_the_segment_that_it_was_in() -> None:
    requests = Requests(Workload((), None))
    assert not requests.pending
    requests.fire(fired(50))
    assert requests.pending
    assert requests.done(40) is None  # a segment that ended before it
    assert requests.pending
    assert requests.done(60) == fired(50)
    assert not requests.pending


def test_the_first_of_several_firings_counts() -> None:
    requests = Requests(Workload((), None))
    requests.fire(fired(50))
    requests.fire(fired(51))
    assert requests.done(60) == fired(50)
    assert requests.done(70) is None


def test_a_cut_without_a_firing_is_over_with_the_segment() -> None:
    requests = Requests(Workload((), None))
    requests.cut()
    assert requests.pending
    assert requests.done(10) is None
    assert not requests.pending


def test_a_request_wakes_the_wait_for_the_load() -> None:
    workload = Workload((), None)
    requests = Requests(workload)
    requests.cut()
    assert workload.wait(60) is False  # at once
    workload.stop()
    assert workload.wait(60) is True


def test_a_load_is_over_when_its_command_or_its_time_is() -> None:
    workload = Workload(("false",), 60)
    workload.start()
    assert workload.wait() is True
    assert workload.finish() == 1
    workload = Workload(("sleep", "60"), 0.01)
    workload.start()
    while not workload.wait():
        pass
    assert workload.finish() == 0

# SPDX-License-Identifier: Apache-2.0
"""The start of a session, its cuts, and their causes."""

from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from pagetape.recording import capture, session
from pagetape.recording import workload as workload_module
from pagetape.recording.exact import NO_FLAGS, Exact, Flags
from pagetape.recording.session import Requests
from pagetape.recording.watch import Firing
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


def test_a_command_can_begin_with_a_second_of_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(workload_module.time, "monotonic", lambda: 5.25)
    monkeypatch.setattr(workload_module.time, "sleep", slept.append)
    Workload((), None).start()
    assert not slept
    Workload((), None, on_second=True).start()
    assert slept == [0.75]
    stopped = Workload((), None, on_second=True)
    stopped.stop()
    stopped.start()
    assert slept == [0.75]


def order_of_the_start(monkeypatch: pytest.MonkeyPatch, exact: Exact | None) -> list[str]:
    """What a session does at its start, if the exact snapshot is `exact`; None: not wanted."""
    done: list[str] = []

    class Recorder:
        facts: ClassVar[dict[str, object]] = {}

        def start(self) -> None:
            done.append("events")

    class Wanted:
        blocks = True

        def load(self) -> object:
            return exact

        def take(self, *_: object) -> Exact | None:
            done.extend([] if exact is None else ["exact"])
            return exact

    def flags(*_: object, **__: object) -> Flags:
        done.append("kpageflags")
        return NO_FLAGS

    def take(_: object, __: str, number: int, ts: int, **___: object) -> capture.Snapshot:
        done.append("/proc")
        return capture.Snapshot({"snapshot": [{"snapshot": number, "ts": ts}]}, {}, {})

    monkeypatch.setattr(session, "read_flags", flags)
    monkeypatch.setattr(session.Snapshot, "take", take)
    snapshots = session._Snapshots(cast(session.Wanted, Wanted()), 1)
    snapshots.first(cast(Any, Recorder()), {}, None, lambda: done.append("said"))
    return done


def test_a_start_from_proc_is_read_while_events_are_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Pages that come and go before the first event would be unknown for good."""
    read = ["/proc", "kpageflags"]
    assert order_of_the_start(monkeypatch, None) == ["events", "said", *read]
    failed = order_of_the_start(monkeypatch, Exact({}, {}, "no BPF"))
    assert failed == ["/proc", "events", "said", "exact", *read]


@pytest.mark.parametrize(("pages", "quick"), [(6_000_000, True), (600_000_000, False)])
def test_the_size_of_the_machine_decides_when_kpageflags_is_read(
    monkeypatch: pytest.MonkeyPatch, pages: int, quick: bool
) -> None:
    """And not how long a reading took: on a busy machine it takes any time."""
    read: list[str] = []
    clock = iter(range(0, 10**15, 10**12))

    def flags(*_: object, after: bool) -> Flags:
        read.append("after" if after else "before")
        for name in ("monotonic", "monotonic_ns"):
            monkeypatch.setattr(session.time, name, lambda: next(clock))
        return NO_FLAGS

    def take(_: object, __: str, number: int, ts: int, **___: object) -> capture.Snapshot:
        return capture.Snapshot({"snapshot": [{"snapshot": number, "ts": ts}]}, {}, {})

    facts = {"ts": 1, "pfn": None, "zones": [], "checks": {}, "mismatches": {}, "order": 0}
    facts |= {"pcp_types_differ": 0, "cpu": 0, "pid": 1, "held_ns": 0}
    exact = Exact(facts, {}, None)
    wanted = SimpleNamespace(blocks=True, load=lambda: exact, take=lambda *_: exact)
    recorder = SimpleNamespace(
        facts={}, start=lambda: read.append("events"), stop=lambda: read.append("end")
    )
    monkeypatch.setattr(session.os, "sysconf", lambda _name: pages)
    monkeypatch.setattr(session, "read_flags", flags)
    monkeypatch.setattr(session.Snapshot, "take", take)
    monkeypatch.setattr(session.Snapshot, "made_exact", lambda self, _: self)
    monkeypatch.setattr(capture.Snapshot, "facts", {}, raising=False)
    snapshots = session._Snapshots(cast(session.Wanted, wanted), 1)
    snapshots.first(cast(Any, recorder), {}, None, lambda: None)
    snapshots.last(cast(Any, recorder))
    if quick:
        assert read == ["events", "after", "before", "end"]
    else:
        assert read == ["before", "events", "end"]

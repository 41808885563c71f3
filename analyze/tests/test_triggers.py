# SPDX-License-Identifier: Apache-2.0
"""The triggers of a flight recorder."""

from typing import Any

import pytest

from pagetape.recording.triggers import parse
from pagetape.recording.watch import SECOND, Firing, Trigger, Watch
from pagetape.sampler import Sample
from pagetape.schemas import TABLES

Rows = list[dict[str, Any]]


def trigger(spec: str) -> Trigger:
    made = parse(spec)
    assert made is not None
    return made


def see(watch: Trigger | Watch, name: str, rows: Rows) -> Firing | None:
    return watch.see(name, TABLES[name].batch(rows))


def fallbacks(*times: int) -> Rows:
    common = {"cpu": 0, "pid": 1, "flags": 0}
    other = [common | {"ts": ts, "kind": "alloc"} for ts in times]
    return [*other, *(common | {"ts": ts, "kind": "alloc_extfrag"} for ts in times)]


def reclaim(kind: str, ts: int, pid: int) -> dict[str, Any]:
    return {"ts": ts, "cpu": 0, "pid": pid, "flags": 0, "at": 0, "kind": f"direct_reclaim_{kind}"}


def test_fallbacks_are_counted_within_any_second() -> None:
    watch = trigger("extfrag>3/s")
    assert see(watch, "event", fallbacks(0, 1, 2)) is None
    assert see(watch, "event", fallbacks(SECOND, SECOND + 1)) is None
    assert see(watch, "reclaim", []) is None
    fired = see(watch, "event", fallbacks(SECOND + 5, SECOND + 6, SECOND + 7))
    assert fired == Firing("extfrag>3/s", 5, "/s", SECOND + 6)


def test_any_fallback_can_be_enough() -> None:
    watch = trigger("extfrag>0/s")
    assert see(watch, "event", []) is None
    assert see(watch, "event", fallbacks(7)) == Firing("extfrag>0/s", 1, "/s", 7)


def test_direct_reclaim_is_timed_from_begin_to_end_by_thread() -> None:
    ms = SECOND // 1000
    watch = trigger("direct_reclaim_p99>10ms")
    assert see(watch, "reclaim", [reclaim("begin", 0, 1), reclaim("begin", 1, 2)]) is None
    assert see(watch, "reclaim", [reclaim("end", 5 * ms, 2)]) is None
    assert see(watch, "event", fallbacks(1)) is None
    fired = see(watch, "reclaim", [reclaim("end", 30 * ms, 1), reclaim("begin", 31 * ms, 1)])
    assert fired == Firing("direct_reclaim_p99>10ms", 30.0, "ms", 30 * ms)
    # The slow one is more than a second ago, and the last one was quick.
    later = [reclaim("end", 32 * ms, 1), reclaim("begin", 2 * SECOND, 3)]
    assert see(watch, "reclaim", [*later, reclaim("end", 2 * SECOND + ms, 3)]) is None


def test_one_slow_reclaim_in_a_thousand_does_not_fire() -> None:
    watch = trigger("direct_reclaim_p99>10ms")
    quick = [
        row
        for nr in range(999)
        for row in (reclaim("begin", nr * 1000, 1), reclaim("end", nr * 1000 + 500, 1))
    ]
    slow = [reclaim("begin", 0, 2), reclaim("end", SECOND // 2, 2)]
    assert see(watch, "reclaim", [*quick, *slow]) is None


def sample(ts: int, got: int, failed: int) -> Sample:
    return Sample(ts, [], {"thp_fault_alloc": got, "thp_fault_fallback": failed})


def test_thp_faults_that_fail_are_a_share_of_those_between_two_samples() -> None:
    watch = trigger("thp_fail>50%")
    assert watch.sampled(sample(0, 0, 1000)) is None
    assert watch.sampled(sample(1, 0, 1010)) is None  # ten faults are too few for a share
    assert watch.sampled(sample(2, 100, 1100)) is None
    assert watch.sampled(sample(3, 110, 1190)) == Firing("thp_fail>50%", 90.0, "%", 3)
    assert watch.sampled(Sample(4, [])) is None  # a kernel without THP


def test_after_a_firing_all_triggers_keep_quiet_for_a_while() -> None:
    watch = Watch([trigger("extfrag>0/s"), trigger("thp_fail>50%")], cooldown=10)
    assert see(watch, "event", fallbacks(SECOND)) is not None
    assert see(watch, "event", fallbacks(2 * SECOND)) is None
    assert watch.sampled(sample(3 * SECOND, 0, 0)) is None
    assert watch.sampled(sample(4 * SECOND, 0, 100)) is None
    assert see(watch, "event", fallbacks(11 * SECOND)) is not None


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("extfrag", "'extfrag' is not a trigger: expected extfrag>N/s, thp_fail>N%,"),
        ("frag>3/s", "'frag>3/s' is not a trigger"),
        ("extfrag>many/s", "'extfrag>many/s' is not a trigger"),
        ("extfrag>3/min", "'extfrag>3/min': '/min' is not one of /s"),
        ("direct_reclaim_p99>3", "'direct_reclaim_p99>3': '' is not one of ms, us, s"),
    ],
)
def test_an_invalid_trigger_is_refused_with_the_reason(spec: str, words: str) -> None:
    with pytest.raises(ValueError, match="^" + words.replace("(", r"\(")):
        parse(spec)


def test_units_and_the_signal() -> None:
    assert trigger("direct_reclaim_p99 > 1.5s").limit == 1500
    assert trigger("direct_reclaim_p99>500us").limit == 0.5
    assert parse("signal") is None

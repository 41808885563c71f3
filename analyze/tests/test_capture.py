# SPDX-License-Identifier: Apache-2.0
"""Facts of a recording that are known only after its last event."""

from typing import Any

from pagetape.recording.capture import complete_lost, complete_rings


def ring(cpu: int, overrun: int | None, instance: str = "") -> dict[str, Any]:
    return {"cpu": cpu, "instance": instance, "overrun": overrun}


def gap(cpu: int, events: int | None) -> dict[str, Any]:
    return {"cpu": cpu, "from_ts": None, "to_ts": 1, "events": events}


def test_statistics_fill_only_what_the_trace_left_out() -> None:
    rings = [ring(0, None), ring(1, 4), ring(0, None, "mine")]
    stats = [{"cpu": 0, "overrun": 7}, {"cpu": 1, "overrun": 9}]
    assert complete_rings(rings, stats) == [ring(0, 7), ring(1, 4), ring(0, None, "mine")]


def test_the_one_gap_of_unknown_size_is_the_rest_of_the_overrun() -> None:
    lost = [gap(0, 3), gap(0, None), gap(1, None)]
    assert complete_lost(lost, [ring(0, 10), ring(1, None)]) == [gap(0, 3), gap(0, 7), gap(1, None)]


def test_two_gaps_of_unknown_size_have_a_known_sum() -> None:
    lost = [gap(0, None), gap(0, None), gap(0, 4)]
    rest = {"cpu": 0, "from_ts": None, "to_ts": None, "events": 6}
    assert complete_lost(lost, [ring(0, 10)]) == [*lost, rest]
    assert complete_lost(lost, [ring(0, None)]) == lost


def test_statistics_that_contradict_the_gaps_prove_nothing() -> None:
    lost = [gap(0, 12), gap(0, None)]
    assert complete_lost(lost, [ring(0, 10)]) == lost

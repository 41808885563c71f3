# SPDX-License-Identifier: Apache-2.0
"""The fleet's row of a sweep, against hand-made outcomes."""

import math
from statistics import median
from typing import Any

import pytest

from pagetape.fleet.effect import Outcome, of_results, rows, wanted
from pagetape.fleet.results import Result, SweepTape
from pagetape.replaying.sweep import Asked

RUN = Asked(("p",), "auto", "auto", "auto", None)


def outcome(host: str, difference: float | None, **more: Any) -> Outcome:
    about = {"metric": "fallbacks", "unit": "events", "own": 100.0, "chose": True, "tape": host}
    about |= {"run": RUN, "machine": host, "host": host.upper(), "tier": "A"}
    about |= {"shown": bool(difference)} | more
    return Outcome(difference=difference, **about)


def test_each_host_counts_once() -> None:
    found = [outcome("a", -10.0, tape=f"a{i}") for i in range(9)]
    found += [outcome("b", 30.0), outcome("c", 20.0), outcome("d", 5.0), outcome("e", 40.0)]
    (row,) = rows(found)
    assert (row["hosts"], row["tapes"]) == (5, 13)
    assert row["effect"] == median([-10, 30, 20, 5, 40])
    assert (row["low"], row["high"]) == (-10, 40)
    assert (row["better"], row["worse"], row["share_worse"]) == (1, 4, 80)


def test_the_effect_of_a_host_is_of_all_its_tapes_together() -> None:
    found = [outcome("a", 1.0, own=2.0), outcome("a", 9.0, own=98.0)]
    (row,) = rows(found)
    assert row["effect"] == 10
    (row,) = rows([outcome("a", 1.0, unit="1/1000"), outcome("a", 9.0, unit="1/1000")])
    assert (row["effect"], row["unit"]) == (5, "1/1000")


def test_without_members_the_effect_is_in_percent_of_the_one_run_of_the_own_rules() -> None:
    metric = {"metric": "fallbacks", "unit": "events", "tier": "A", "model": 150}
    metric |= {"own": dict.fromkeys(("median", "low", "high")), "difference": {"value": -60}}
    made = {"tape": "a", "policies_effect": [], "metrics": [metric]}
    (row,) = of_results([Result(SweepTape("1", "a", "m", "A"), RUN, 0, made)], ["fallbacks"])
    assert (row["effect"], row["better"]) == (-40, 1)


def test_a_host_is_of_one_class() -> None:
    found = [
        *(outcome("better", value) for value in (-1.0, -2.0, 0.0)),
        *(outcome("divided", value) for value in (-1.0, 1.0)),
        outcome("not shown", 7.0, shown=False),
        outcome("idle", 0.0, chose=False),
        outcome("withheld", None),
        *(outcome("partly", value) for value in (None, 3.0)),
    ]
    (row,) = rows(found)
    kinds = ("better", "worse", "no_difference", "no_choice", "no_verdict")
    assert [row[kind] for kind in kinds] == [1, 1, 2, 1, 1]
    assert sum(row[kind] for kind in kinds) == row["hosts"] == 6
    assert row["with_effect"] == 5
    assert row["share_no_choice"] == pytest.approx(16.666)


def test_tapes_on_which_the_policy_chose_decide_the_class() -> None:
    found = [outcome("a", 0.0, chose=False)] * 9 + [outcome("a", -50.0)]
    (row,) = rows(found)
    assert (row["better"], row["effect"]) == (1, -5)


def test_the_five_worst_hosts_by_the_direction_that_is_bad() -> None:
    values = {"a": 5.0, "b": -70.0, "c": 30.0, "d": 1.0, "e": 2.0, "f": 90.0}
    (row,) = rows([outcome(host, value) for host, value in values.items()])
    assert [host["machine"] for host in row["worst"]] == ["f", "c", "a", "e", "d"]
    many = [outcome(h, v, metric="free pageblocks at the end") for h, v in values.items()]
    assert [host["host"] for host in rows(many)[0]["worst"]] == ["B", "D", "E", "A", "C"]
    neither = [outcome(h, v, metric="allocs") for h, v in values.items()]
    (row,) = rows(neither)
    assert [host["machine"] for host in row["worst"]][:2] == ["f", "b"]
    assert (row["better"], row["less"], row["more"]) == (None, 1, 5)


def test_something_from_nothing_is_more_than_any_percentage() -> None:
    (row,) = rows([outcome(host, 3.0, own=0.0) for host in "abcde"])
    assert row["effect"] == math.inf == row["high"] and row["worse"] == 5
    (row,) = rows([outcome("a", 0.0, own=0.0)])
    assert row["effect"] == 0


def test_runs_and_metrics_keep_their_order() -> None:
    other = RUN._replace(policies=("o",))
    found = [outcome("a", 1.0, metric=m, run=run) for m in ("y", "x", "z") for run in (RUN, other)]
    names = [(row["policies"], row["metric"]) for row in rows(found, ("x", "y"))]
    assert names == [(("p",), "x"), (("p",), "y"), (("o",), "x"), (("o",), "y")]


@pytest.mark.parametrize(
    ("metric", "good"),
    [("fallbacks steal", -1), ("free pageblocks at the end", 1), ("free pages at the end", 0)],
)
def test_some_metrics_have_a_better(metric: str, good: int) -> None:
    assert wanted(metric) == good

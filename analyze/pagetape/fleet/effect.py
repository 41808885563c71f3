# SPDX-License-Identifier: Apache-2.0
"""The effect of a policy on a fleet: one row for each run of a sweep and each metric.

Each host counts once. The effect on a host is the difference of its tapes from their own rules,
all tapes together: the sum of the differences in percent of the sum under the own rules, or for an
index the mean difference in its unit. A host belongs to one class:

    better, worse  most of its tapes show a difference of that direction
    no difference  no such majority
    no choice      the policy had nothing to decide on any of its tapes
    no verdict     no tape has a verdict in this metric (no_verdict.py)

The row has the median effect over the hosts with an effect, the interval of that median from the
hosts (host_statistics.py), the hosts of each class, and the five hosts with the worst effect.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from pagetape import answer
from pagetape.asking.interval import INDEX
from pagetape.fleet.host_statistics import median_interval
from pagetape.fleet.results import Result
from pagetape.replaying.sweep import Asked

_WORST = 5  # hosts that a row names

# Metrics that a machine wants few or many of: beginnings of names. Others have no better or worse.
_FEW = (
    "fallbacks",
    "mixing ",
    "pages taken under the zone lock",
    "pages drained to the zone",
    "zone lock ",
    "zonelist scan restarts",
    "allocs from another node",
    "allocs below ",
    "allocs not served",
    "direct reclaims",
    "slow-path wake calls",
    "mixed pageblocks",
    "polluted ",
    "foreign pages",
    "unusable free space",
)
_MANY = ("free pageblocks", "huge pages after", "success of huge pages")


def wanted(metric: str) -> int:
    """-1 if less of a metric is better, 1 if more is, 0 if neither."""
    if metric.startswith(_FEW):
        return -1
    return int(metric.startswith(_MANY))


class Outcome(NamedTuple):
    """One metric of one run on one tape."""

    run: Asked
    metric: str
    machine: str  # the host, whatever it is called
    host: str | None  # its name
    tape: str
    unit: str
    tier: str
    own: float | None  # median of the own rules, or of their one run
    difference: float | None  # from them; None without a verdict
    shown: bool | None  # None: of one run, without an interval
    chose: bool  # the policy had a choice


def _outcomes(result: Result) -> Iterator[Outcome]:
    """The outcomes of one result of a sweep."""
    made = result.made
    effects = [e for e in made["policies_effect"] if e["policy"] != "mainline"]
    chose = not effects or any(effect["choices"] for effect in effects)
    for m in made["metrics"]:
        difference, own = m["difference"] or {}, (m["own"] or {}).get("median")
        yield Outcome(
            result.run,
            m["metric"],
            result.tape.machine,
            result.tape.host,
            made["tape"],
            m["unit"],
            m["tier"],
            m["model"] if own is None else own,
            difference.get("value"),
            difference.get("shown"),
            chose,
        )


@dataclass(frozen=True)
class _Host:
    """What a run does to one metric of one host."""

    machine: str
    name: str | None
    tapes: int
    effect: float | None
    sign: int  # of the shown difference, 0 without one
    kind: str  # moved, no_difference, no_choice or no_verdict
    tape: str  # with the farthest difference

    @classmethod
    def of(cls, found: Sequence[Outcome]) -> "_Host":
        known = [one for one in found if one.difference is not None]
        about = found[0].machine, found[0].host, len(found)
        if not known:
            return cls(*about, None, 0, "no_verdict", found[0].tape)
        total = math.fsum(one.difference or 0 for one in known)
        farthest = max(known, key=lambda one: (abs(one.difference or 0), one.tape)).tape
        chosen = [one for one in known if one.chose]
        signs = [_sign(one) for one in chosen]
        majority = next((s for s in (-1, 1) if 2 * signs.count(s) > len(signs)), 0)
        kind = "moved" if majority else "no_difference" if chosen else "no_choice"
        if found[0].unit == INDEX:
            return cls(*about, total / len(known), majority, kind, farthest)
        own = math.fsum(one.own or 0 for one in known)
        effect = 100 * total / own if own else math.copysign(math.inf, total) if total else 0.0
        return cls(*about, effect, majority, kind, farthest)


def _sign(one: Outcome) -> int:
    if one.shown is False or not one.difference:
        return 0
    return 1 if one.difference > 0 else -1


def of_results(found: Iterable[Result], metrics: Sequence[str]) -> list[dict[str, Any]]:
    """The fleet's rows of the results of a sweep."""
    return rows([outcome for result in found for outcome in _outcomes(result)], metrics)


def rows(found: Iterable[Outcome], metrics: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """The fleet's rows, in the order of the runs and of `metrics`, or of the outcomes."""
    chosen = [one for one in found if metrics is None or one.metric in metrics]
    place = {name: i for i, name in enumerate(metrics or ())}
    runs = {name: i for i, name in enumerate(dict.fromkeys(one.run for one in chosen))}
    for name in dict.fromkeys(one.metric for one in chosen):
        place.setdefault(name, len(place))
    chosen.sort(key=lambda one: (runs[one.run], place[one.metric], one.machine))
    return [
        _row(run, metric, list(same))
        for (run, metric), same in groupby(chosen, key=lambda one: (one.run, one.metric))
    ]


def _row(run: Asked, metric: str, found: list[Outcome]) -> dict[str, Any]:
    hosts = [_Host.of(list(same)) for _, same in groupby(found, key=lambda one: one.machine)]
    known = [host for host in hosts if host.effect is not None]
    middle = median_interval([host.effect for host in known if host.effect is not None])
    good = wanted(metric)
    less, more = (sum(host.sign == sign for host in hosts) for sign in (-1, 1))
    better, worse = (less, more) if good < 0 else (more, less)
    kinds = [host.kind for host in hosts]
    return {
        **run._asdict(),
        "metric": metric,
        "unit": "1/1000" if found[0].unit == INDEX else "%",
        "tier": max(one.tier for one in found),
        "hosts": len(hosts),
        "tapes": len(found),
        "with_effect": len(known),
        "effect": middle and middle.value,
        "low": middle and middle.low,
        "high": middle and middle.high,
        "less": less,
        "more": more,
        "better": better if good else None,
        "worse": worse if good else None,
        **{kind: kinds.count(kind) for kind in ("no_difference", "no_choice", "no_verdict")},
        "share_better": answer.share(better, len(hosts)) if good else None,
        "share_worse": answer.share(worse, len(hosts)) if good else None,
        "share_no_choice": answer.share(kinds.count("no_choice"), len(hosts)),
        "worst": _worst(known, good),
    }


def _worst(hosts: Sequence[_Host], good: int) -> list[dict[str, Any]]:
    """The hosts with the worst effects; of a metric without better or worse, the largest ones."""

    def badness(host: _Host) -> float:
        assert host.effect is not None
        return -good * host.effect if good else abs(host.effect)

    ordered = sorted(hosts, key=lambda host: (-badness(host), host.machine))
    return [
        {
            "machine": host.machine,
            "host": host.name,
            "effect": host.effect,
            "tapes": host.tapes,
            "tape": host.tape,
        }
        for host in ordered[:_WORST]
    ]

# SPDX-License-Identifier: Apache-2.0
"""Predicts each value of a switch from the tapes recorded under the other."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pyarrow as pa

from pagetape.ab.switch import Switch
from pagetape.asking import no_verdict
from pagetape.asking.comparison import members_of, metrics
from pagetape.asking.interval import KINDS, RECORDINGS, Ratio, interval, kind_of, ratio
from pagetape.replaying import RECLAIM_AUTO, ensemble, players, replay_span
from pagetape.replaying.engine_run import Progress
from pagetape.replaying.model_error import recorded_metrics
from pagetape.replaying.playback import Run, Source, check, in_mode, without_verdict
from pagetape.replaying.validation import inferred, preferences
from pagetape.replaying.warm_start import warmed
from pagetape.schemas.tape import Tape

Bar = Callable[[str], AbstractContextManager[Progress]]

# Members by metric: under the other value, and under the tape's own rules.
Pairs = dict[str, tuple[list[int], list[int]]]


def recorded(tape: Tape, names: Sequence[str]) -> dict[str, int]:
    """The metrics of a recording; one without a value is left out."""
    found = metrics(tape)
    return {n: found[n]["value"] for n in names if n in found and found[n]["value"] is not None}


def _pairs(tape: Tape, run: Run, warm: bool, nr: int, progress: Progress) -> Pairs:
    """The members of a tape under another value, `warm` after a warm-up, and under its own."""
    check(tape, run)
    source = Source(tape, inferred(tape), preferences(tape))
    start = warmed(source, run) if warm else source
    own = ensemble.Members(source, "own", run.own, ensemble.most(tape, nr))
    this = ensemble.Members(start, "this", run, nr, cached=False)
    players.play([own, this], progress=progress)  # in one pass over the tape
    found = members_of(pa.concat_tables([own.table, this.table]))
    recorded_rules, other = found.get("own", {}), found.get("this", {})
    return {name: (other[name], recorded_rules[name]) for name in other if name in recorded_rules}


def _run(switch: Switch, tape: Tape, value: str) -> Run:
    """The run that predicts a value, in the mode of its tier."""
    return in_mode(tape, Run("auto", switch.policies(value, tape)), RECLAIM_AUTO)


@dataclass(frozen=True)
class Prediction:
    """One metric under the other value, from the tapes of one value."""

    ratio: Ratio | None  # under the other value / under the tape's own; None: no verdict
    own: float | None  # median of the members under the tape's own rules
    this: float | None  # under the other value
    followed: int = 0  # tapes whose recorded value lies in the own rules' interval
    tapes: int = 0
    no_verdict: str | None = None  # if the model follows none of them


def predict(
    switch: Switch, tapes: Sequence[Path], value: str, warm: bool, nr: int, bar: Bar
) -> dict[str, Prediction]:
    """The metrics of the switch at `value`, from `nr` members of each tape recorded under the
    other value, without tapes that get no verdict; {} for a switch without a policy. A tape counts
    in the metrics in which the model follows it. `warm`: before each live run under `value`, the
    command had run under it, too."""
    if switch.policy is None or not nr:
        return {}
    together: Pairs = {}
    reasons: dict[str, list[str | None]] = {}
    kinds = set()
    for path in tapes:
        tape = Tape(path)
        run = _run(switch, tape, value)
        if without_verdict(tape, run):
            continue
        kinds.add(replay_span.kind(tape))
        with bar(f"{path.stem} as {switch.name}={value}") as progress:
            found = _pairs(tape, run, warm, nr, progress)
        whys = _not_followed(tape, run, found)
        for name, pairs in found.items():
            reasons.setdefault(name, []).append(whys.get(name))
            if name in whys:
                continue
            for values, more in zip(together.setdefault(name, ([], [])), pairs, strict=True):
                values.extend(more)
    if not kinds:
        return {}
    kind = max(kinds, key=RECORDINGS.index)  # one partial recording makes the prediction partial
    return {
        name: _prediction(name, together.get(name), whys, kind)
        for name, whys in reasons.items()
        if name in switch.metrics
    }


def _not_followed(tape: Tape, run: Run, found: Pairs) -> dict[str, str]:
    """The metrics in which the model does not follow a tape, and why."""
    kind = kind_of(replay_span.kind(tape), run.reclaim)
    whys = {}
    for name, row in recorded_metrics(tape).items():
        if name not in found:
            continue
        own = interval(name, row["unit"], found[name][1], kind, row["most"])
        why = no_verdict.of_metric(None, name, row["value"], no_verdict.Rules(own, None))
        if why is not None:
            whys[name] = why
    return whys


def _prediction(
    name: str,
    members: tuple[list[int], list[int]] | None,
    whys: Sequence[str | None],
    kind: str,
) -> Prediction:
    """The prediction of a metric from the tapes which the model follows in it."""
    followed = sum(why is None for why in whys)
    if members is None:
        return Prediction(None, None, None, followed, len(whys), whys[0])
    this, own = members
    found = ratio(name, this, own, kind)
    return Prediction(found, median(own), median(this), followed, len(whys))


# Events that one CPU plays in the 5 minutes that an answer may take, at 2.5 M/s.
_EVENTS_PER_CPU = 750_000_000
_LEAST_MEMBERS = 6


def affordable(nr: int, tapes: Sequence[Path]) -> int:
    """The members of each tape for an answer within 5 minutes: `nr` or fewer."""
    events = sum(Tape(path).num_rows("event") for path in tapes)
    most = _EVENTS_PER_CPU * len(os.sched_getaffinity(0)) // max(2 * events, 1)
    return min(nr, max(most, _LEAST_MEMBERS))


def unjudged(switch: Switch, tapes: Sequence[Path], value: str) -> list[str]:
    """Why tapes do not predict the other value: lines with the tape's name."""
    if switch.policy is None:
        return []
    opened = {path.name: Tape(path) for path in tapes}
    reasons = ((name, without_verdict(t, _run(switch, t, value))) for name, t in opened.items())
    return [f"{name}: {why}" for name, why in reasons if why]


def partial(tapes: Sequence[Path]) -> list[str]:
    """The tapes that lost events or have no exact start: they are predicted less well."""
    return [path.name for path in tapes if replay_span.kind(Tape(path)) != KINDS[0]]

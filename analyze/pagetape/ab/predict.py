# SPDX-License-Identifier: Apache-2.0
"""Predicts each value of a switch from the tapes recorded under the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pyarrow as pa

from pagetape.ab.switch import Switch
from pagetape.asking.comparison import members_of, metrics
from pagetape.asking.interval import KINDS, Ratio, ratio
from pagetape.replaying import ensemble, replay_span
from pagetape.replaying.engine_run import Progress
from pagetape.replaying.playback import Run, Source, check
from pagetape.replaying.validation import inferred, preferences
from pagetape.replaying.warm_start import warmed
from pagetape.schemas.tape import Tape

Bar = Callable[[str], AbstractContextManager[Progress]]

# Pairs of members of one metric: under the other value, and under the tape's own rules.
Pairs = dict[str, tuple[list[int], list[int]]]


def recorded(tape: Tape, names: Sequence[str]) -> dict[str, int]:
    """The metrics of a recording; one without a value is left out."""
    found = metrics(tape)
    return {n: found[n]["value"] for n in names if n in found and found[n]["value"] is not None}


def _pairs(tape: Tape, run: Run, warm: bool, nr: int, progress: Progress) -> Pairs:
    """The members of a tape under another value, `warm` after a warm-up, and under its own."""
    check(tape, run)
    source = Source(tape, inferred(tape), preferences(tape))
    near = tape.path
    own = ensemble.own(source, run, nr, near, progress=lambda share: progress(share / 2))
    start = warmed(source, run, near) if warm else source
    this = ensemble.play(
        start, {"this": run}, nr, near, progress=lambda share: progress((1 + share) / 2)
    )
    found = members_of(pa.concat_tables([own, this]))
    recorded_rules, other = found.get("own", {}), found.get("this", {})
    return {name: (other[name], recorded_rules[name]) for name in other if name in recorded_rules}


@dataclass(frozen=True)
class Prediction:
    """One metric under the other value, from the tapes of one value."""

    ratio: Ratio  # under the other value / under the tape's own
    own: float  # median of the members under the tape's own rules
    this: float  # under the other value


def predict(
    switch: Switch, tapes: Sequence[Path], value: str, warm: bool, nr: int, bar: Bar
) -> dict[str, Prediction]:
    """The metrics of the switch at `value`, from `nr` members of each tape recorded under the
    other value; {} for a switch without a policy. `warm`: before each live run under `value`, the
    command had run under it, too."""
    if switch.policy is None or not nr:
        return {}
    together: Pairs = {}
    kinds = set()
    for path in tapes:
        tape = Tape(path)
        run = Run("auto", switch.policies(value, tape), switch.reclaim)
        kinds.add(replay_span.kind(tape))
        with bar(f"{path.stem} as {switch.name}={value}") as progress:
            found = _pairs(tape, run, warm, nr, progress)
        for name, pairs in found.items():
            for values, more in zip(together.setdefault(name, ([], [])), pairs, strict=True):
                values.extend(more)
    kind = max(kinds, key=KINDS.index)  # one partial recording makes the prediction partial
    return {
        name: Prediction(ratio(name, this, own, kind), median(own), median(this))
        for name, (this, own) in together.items()
        if name in switch.metrics
    }


def partial(tapes: Sequence[Path]) -> list[str]:
    """The tapes that lost events or have no exact start: they are predicted less well."""
    return [path.name for path in tapes if replay_span.kind(Tape(path)) != KINDS[0]]

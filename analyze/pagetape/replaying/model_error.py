# SPDX-License-Identifier: Apache-2.0
"""The model's error on a recording: the error bar of every what-if on it.

The recording is played under its own kernel and policy. The error of a metric is the difference
between recording and replay. The result is cached, because it takes a replay (tapes/cache.py).
The tape of a what-if contains it as the table model_error.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from pagetape.asking.comparison import metrics
from pagetape.replaying import kernels
from pagetape.replaying.engine_run import Progress, silent
from pagetape.replaying.playback import NewTape, Run, Source, play
from pagetape.replaying.validation import inferred, preferences
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape
from pagetape.tapes import cache, output

_SCHEMA = TABLES["model_error"].arrow


def _side_by_side(tape: Tape, model: Tape) -> pa.Table:
    """Every metric of the recording and of its replay."""
    recorded, played = metrics(tape), metrics(model)
    rows = []
    for name in dict.fromkeys([*recorded, *played]):
        about = recorded.get(name) or played[name]
        values = {"recorded": recorded.get(name), "model": played.get(name)}
        rows.append(
            {"metric": name, "unit": about["unit"], "tier": about["tier"]}
            | {side: row and row["value"] for side, row in values.items()}
        )
    return pa.Table.from_pylist(rows, _SCHEMA)


def measure(tape: Tape, near: Path, progress: Progress = silent) -> pa.Table:
    """The rows of model_error for `tape`; none if its kernel is unknown or it is a replay.

    The replay, if needed, is written to a temporary directory beside `near`.
    """
    if "replay" in tape.facts or kernels.own(tape) is None:
        return _SCHEMA.empty_table()

    def make() -> pa.Table:
        with output.scratch_dir(near) as directory:
            out = directory / "model.tape"
            run = Run("auto", ())
            source = Source(tape, inferred(tape), preferences(tape))
            play(source, run, NewTape(out, counted=True), progress)
            return _side_by_side(tape, Tape(out))

    return cache.table(tape, "model_error", _SCHEMA, make)

# SPDX-License-Identifier: Apache-2.0
"""The model's error on a recording: the figures with which a what-if on it is compared.

The recording is played under its own kernel and policy, with the reclaim mode and the inputs of
the what-if. The error of a metric is the difference between recording and replay. The result is
cached, because it takes a replay (tapes/cache.py). The tape of a what-if contains it as the table
model_error.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from pagetape.asking.comparison import metrics
from pagetape.replaying import kernels
from pagetape.replaying.engine_run import Progress, silent
from pagetape.replaying.playback import NewTape, Run, Source, play
from pagetape.replaying.validation import block_mix, inferred, preferences, recorded_use
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape
from pagetape.tapes import cache, output

_SCHEMA = TABLES["model_error"].arrow


def recorded_metrics(tape: Tape) -> dict[str, dict[str, Any]]:
    """The metrics of a recording, also those that follow from its events: of pageblocks, and of how
    the zones stood at its requests."""
    tables = {}
    if "replay" not in tape.facts:
        tables = {"block_mix": block_mix(tape), "recorded_use": recorded_use(tape)}
    return metrics(tape, tables=tables)


def side_by_side(tape: Tape, model: Tape) -> pa.Table:
    """Every metric of the recording and of its replay."""
    recorded, played = recorded_metrics(tape), metrics(model)
    rows = []
    for name in dict.fromkeys([*recorded, *played]):
        about = recorded.get(name) or played[name]
        values = {"recorded": recorded.get(name), "model": played.get(name)}
        rows.append(
            {"metric": name, "unit": about["unit"], "tier": about["tier"]}
            | {side: row and row["value"] for side, row in values.items()}
        )
    return pa.Table.from_pylist(rows, _SCHEMA)


def measure(tape: Tape, run: Run, near: Path, progress: Progress = silent) -> pa.Table:
    """The rows of model_error for a run on `tape`; none if the tape's kernel is unknown or it is a
    replay.

    The replay, if needed, is written to a temporary directory beside `near`.
    """
    if "replay" in tape.facts or kernels.own(tape) is None:
        return _SCHEMA.empty_table()

    def make() -> pa.Table:
        with output.scratch_dir(near) as directory:
            out = directory / "model.tape"
            source = Source(tape, inferred(tape), preferences(tape))
            play(source, run.own, NewTape(out, counted=True), progress)
            return side_by_side(tape, Tape(out))

    return cache.table(tape, f"model_error-{inputs(run)}", _SCHEMA, make)


def inputs(run: Run) -> str:
    """A name for what the own rules' run shares with a run: its reclaim mode and its inputs."""
    return f"{run.reclaim}-assisted" if run.assisted else run.reclaim

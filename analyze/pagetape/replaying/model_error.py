# SPDX-License-Identifier: Apache-2.0
"""The model's error on a recording: the figures with which a what-if on it is compared.

The recording is played under its own kernel and policy, with the reclaim mode and the inputs of
the what-if. The error of a metric is the difference between recording and replay. The result is
cached, because it takes a replay (tapes/cache.py). The tape of a what-if contains it as the table
model_error.
"""

import pyarrow as pa

from pagetape.asking.comparison import Metrics, metrics, metrics_of_run
from pagetape.replaying import kernels, players
from pagetape.replaying.playback import Run, Source
from pagetape.replaying.validation import block_mix, recorded_counts, recorded_use
from pagetape.schemas import TABLES
from pagetape.schemas.memory_tape import TapeWith
from pagetape.schemas.tape import Tape
from pagetape.tapes import cache

_SCHEMA = TABLES["model_error"].arrow


# The metrics of a recording in the cache.
_RECORDED = pa.schema(
    [pa.field(name, pa.utf8()) for name in ("metric", "unit", "tier")]
    + [pa.field(name, pa.int64()) for name in ("value", "most")]
)


def recorded_metrics(tape: Tape) -> Metrics:
    """The metrics of a recording, also those that follow from its events: of pageblocks, and of how
    the zones stood at its requests. Cached."""
    if "replay" in tape.facts:
        return metrics(tape)

    def make() -> pa.Table:
        tables = {"block_mix": block_mix(tape), "recorded_use": recorded_use(tape)}
        counts = recorded_counts(tape)
        ask = metrics_of_run if counts else metrics
        return pa.Table.from_pylist([*ask(TapeWith(tape, tables | counts)).values()], _RECORDED)

    rows = cache.table(tape, "recorded_metrics", _RECORDED, make).to_pylist()
    return {row["metric"]: row for row in rows}


def side_by_side(tape: Tape, played: Metrics) -> pa.Table:
    """Every metric of the recording beside those of its replay."""
    recorded = recorded_metrics(tape)
    rows = []
    for name in dict.fromkeys([*recorded, *played]):
        about = recorded.get(name) or played[name]
        values = {"recorded": recorded.get(name), "model": played.get(name)}
        rows.append(
            {"metric": name, "unit": about["unit"], "tier": about["tier"]}
            | {side: row and row["value"] for side, row in values.items()}
        )
    return pa.Table.from_pylist(rows, _SCHEMA)


def inputs(run: Run) -> str:
    """A name for what the own rules' run shares with a run: its reclaim mode and its inputs."""
    return f"{run.reclaim}-assisted" if run.assisted else run.reclaim


class ModelError(players.CachedTable):
    """The rows of model_error for the inputs of a run; none if the tape's kernel is unknown, or if
    the tape is a replay.
    """

    def __init__(self, source: Source, run: Run) -> None:
        tape, name = source.tape, f"model_error-{inputs(run)}"
        known = "replay" not in tape.facts and kernels.own(tape) is not None

        def parts() -> list[players.Part]:
            return [players.Part(source, run.own)] if known else []

        super().__init__(tape, name if known else None, _SCHEMA, parts)

    def make(self) -> pa.Table:
        (part,) = self.parts
        return side_by_side(self._tape, metrics_of_run(part.whole()))


def measure(source: Source, run: Run) -> pa.Table:
    """The table of ModelError, played now."""
    error = ModelError(source, run)
    players.play([error])
    return error.table

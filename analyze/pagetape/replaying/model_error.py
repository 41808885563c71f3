# SPDX-License-Identifier: Apache-2.0
"""How far the model is off on a recording: the bar that every what-if on it is held against.

The recording is played under its own kernel and policy, and its metrics stand beside
those of the model. That costs a replay, so the answer is kept (cache.py). What-ifs carry
it in their table model_error.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from pagetape.asking.comparison import metrics
from pagetape.replaying import kernels
from pagetape.replaying.playback import Run, play
from pagetape.replaying.validation import preferences, inferred
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape
from pagetape.tapes import cache

_SCHEMA = TABLES["model_error"].arrow


def _side_by_side(tape: Tape, model: Tape) -> pa.Table:
    """Every metric of the recording beside that of its replay."""
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


def measure(
    tape: Tape, near: Path, progress: Callable[[float], None] = lambda _share: None
) -> pa.Table:
    """The rows for `tape`; none if its kernel is unknown or it is a replay itself.

    The replay it may take is put in a directory of its own beside `near`.
    """
    if "replay" in tape.facts or kernels.own(tape) is None:
        return _SCHEMA.empty_table()

    def make() -> pa.Table:
        where = near.absolute().parent
        with tempfile.TemporaryDirectory(prefix=f".{near.name}.", dir=where) as directory:
            out = Path(directory) / "model.tape"
            run = Run("auto", ())
            told = {"inferred": inferred(tape), "preferences": preferences(tape)}
            play(tape, run, out, progress=progress, **told, counted=True)
            return _side_by_side(tape, Tape(out))

    return cache.table(tape, "model_error", _SCHEMA, make)

# SPDX-License-Identifier: Apache-2.0
"""How far the model is off on a recording: the bar that every what-if on it is held against.

The recording is played under its own kernel and policy, and its metrics stand beside
those of the model. That costs a replay, so the answer is kept in the user's cache
directory, by the contents of the recording and of the installed pagetape: a changed
tape or another engine is measured anew. What-ifs carry it in their table model_error.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pagetape
from pagetape.comparison import metrics
from pagetape.playback import Run, has_kernel, play
from pagetape.schemas.tape import Tape

Rows = list[dict[str, Any]]  # of the table model_error

_PARTS = {".py", ".sql", ".toml", ".so"}
_CHUNK = 1 << 20


def _digest(files: list[Path]) -> str:
    digest = blake2b(digest_size=16)
    for path in sorted(files):
        digest.update(path.name.encode())
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    return digest.hexdigest()


@cache
def _build() -> str:
    """Tells this pagetape from any other."""
    (home,) = pagetape.__path__
    return _digest([path for path in Path(home).rglob("*") if path.suffix in _PARTS])


def _kept(tape: Tape) -> Path:
    """Where the answer for `tape` is kept."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    contents = _digest(list(tape.path.glob("*.arrow")))
    return Path(home) / "pagetape/model_error" / f"{contents}-{_build()}.json"


def _rows(tape: Tape, model: Tape) -> Rows:
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
    return rows


def _keep(path: Path, rows: Rows) -> None:
    """For the next time, if the cache can be written."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(rows))
        part.rename(path)


def measure(
    tape: Tape, near: Path, progress: Callable[[float], None] = lambda _share: None
) -> Rows:
    """The rows for `tape`; none if its kernel is unknown or it is a replay itself.

    The replay it may take is put in a directory of its own beside `near`.
    """
    if "replay" in tape.facts or not has_kernel(tape):
        return []
    kept = _kept(tape)
    with contextlib.suppress(OSError, ValueError):
        rows: Rows = json.loads(kept.read_text())
        return rows
    with tempfile.TemporaryDirectory(prefix=f".{near.name}.", dir=near.absolute().parent) as where:
        out = Path(where) / "model.tape"
        play(tape, Run("auto", ()), out, progress=progress)
        rows = _rows(tape, Tape(out))
    _keep(kept, rows)
    return rows

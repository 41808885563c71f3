# SPDX-License-Identifier: Apache-2.0
"""analyze/lab/unchanged.py: what counts as a difference of two outputs, and what does not."""

from __future__ import annotations

import json
import runpy
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

_SCRIPT = runpy.run_path(str(Path(__file__).parents[1] / "lab/unchanged.py"))

_ANSWER = {"events_per_s": 1.5, "rows": {"cut": 4}, "cause": "cut", "explanation": ["row 7"]}


@dataclass(frozen=True)
class _Output:
    """What a command left: its answer, and a tape of one table and its facts."""

    table: str = "inferred"
    columns: tuple[str, ...] = ("at", "kind", "metric")
    at: Sequence[int | None] = (1, None, 3)
    type_at: str = "uint64"
    kind: Sequence[int | None] = (0, 1, None)
    labels: Sequence[str] = ("alloc", "cut")
    metric: Sequence[str | None] = ("free", None, "x")
    facts: str = "R0"
    answer: dict[str, Any] = field(default_factory=lambda: _ANSWER)
    chunk: int = 3

    def write(self, path: Path) -> Path:
        kinds = pa.DictionaryArray.from_arrays(pa.array(self.kind, pa.uint8()), list(self.labels))
        arrays = [pa.array(self.at, self.type_at), kinds, pa.array(self.metric)]
        meta = {b"pagetape.facts": json.dumps({"reclaim": self.facts}).encode()}
        (path / "out").mkdir(parents=True)
        for name, found in (
            (self.table, pa.table(arrays, list(self.columns))),
            ("event", pa.table({"cpu": [1]}, metadata=meta)),
        ):
            with pa.ipc.new_file(path / "out" / f"{name}.arrow", found.schema) as file:
                file.write_table(found, max_chunksize=self.chunk)
        (path / "answer.json").write_text(json.dumps({"status": 0, "answer": self.answer}))
        return path


def _differences(tmp_path: Path, **after: Any) -> list[str]:
    outputs = _Output().write(tmp_path / "before"), _Output(**after).write(tmp_path / "after")
    return list(_SCRIPT["differences"](*outputs))


def test_the_same_rows_in_other_batches_and_another_text_are_no_difference(tmp_path: Path) -> None:
    answer = _ANSWER | {"events_per_s": 9.0, "explanation": ["page 7"]}
    assert not _differences(tmp_path, answer=answer, chunk=2)


def test_a_further_label_at_the_end_is_no_difference(tmp_path: Path) -> None:
    more: dict[str, Any] = {
        "labels": ("alloc", "cut", "moved"),
        "answer": _ANSWER | {"rows": {"cut": 4, "moved": 0}},
    }
    assert not _differences(tmp_path / "none", **more)
    more["answer"] = _ANSWER | {"rows": {"cut": 4, "moved": 1}}
    assert _differences(tmp_path / "one", **more)


@pytest.mark.parametrize(
    ("after", "says"),
    [
        ({"type_at": "int64"}, "table inferred: column 'at uint64' before, 'at int64' after"),
        ({"columns": ("at", "k", "metric")}, "table inferred: column 'kind "),
        ({"labels": ("alloc", "moved")}, "table inferred: kind: labels "),
        ({"kind": [0, 0, None]}, "table inferred: kind, row 1: cut before, alloc after"),
        ({"metric": ["free", "", "x"]}, "table inferred: metric, row 1: None before,  after"),
        ({"table": "other"}, "table inferred: only before"),
        ({"facts": "R1"}, "facts: reclaim: 'R0' before, 'R1' after"),
        ({"answer": _ANSWER | {"rows": {"cut": 5}}}, "answer: rows.cut: 4 before, 5 after"),
        ({"answer": _ANSWER | {"explanation": ["row 8"]}}, "answer: explanation[0][0]: '7' before"),
    ],
)
def test_any_other_difference_is_reported(tmp_path: Path, after: dict[str, Any], says: str) -> None:
    assert _differences(tmp_path, **after)[0].startswith(says)


def test_a_row_more_is_a_difference(tmp_path: Path) -> None:
    first = _Output()
    more = {name: (*getattr(first, name), None) for name in ("at", "kind", "metric")}
    found = _differences(tmp_path, **more)
    assert found == ["table inferred: 3 rows before, 4 after"]

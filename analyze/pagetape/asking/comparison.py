# SPDX-License-Identifier: Apache-2.0
"""Compares tapes side by side, with the model's error as the error bar.

A tape has one of three roles:

    recorded  a recording of a kernel
    model     its replay under the same kernel's rules
    what-if   its replay under other rules

For each metric, the model's error is the difference between recording and model. A what-if is
compared with the model, not with the recording, so that the model's error does not look like
an effect. An effect no larger than the error is marked. If the model is not among the tapes,
the table model_error of the what-if replaces it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from pagetape.asking import query
from pagetape.asking.database import Database, labels
from pagetape.schemas.tape import Tape
from pagetape.tapes.kernel_rows import warnings_of
from pagetape.tapes.loss import Loss


def metrics(tape: Tape, threads: int | None = None) -> dict[str, dict[str, Any]]:
    """The rows of the report `metrics`, by name; `threads` as for Database."""
    with Database([tape], threads) as db:
        rows = db.run(query.reports()["metrics"]).objects()
    return {row["metric"]: row for row in rows}


@dataclass(frozen=True)
class Side:
    """One of the compared tapes."""

    label: str
    role: str
    loss: Loss
    run: dict[str, Any] | None
    metrics: dict[str, dict[str, Any]]
    kernel_warnings: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, tape: Tape, label: str) -> Side:
        run = tape.facts.get("replay")
        role = "recorded" if run is None else "model" if run["own"] else "what-if"
        return cls(label, role, Loss.of(tape), run, metrics(tape), warnings_of(tape))

    @classmethod
    def of_model_error(cls, tape: Tape, column: str, role: str) -> Side | None:
        """One side of the tape's table model_error."""
        rows = tape.rows("model_error")
        if not rows:
            return None
        found = {row["metric"]: row | {"value": row[column]} for row in rows}
        return cls(role, role, Loss(None, {}, 0), None, found)

    def value(self, metric: str) -> int | None:
        row = self.metrics.get(metric)
        return row["value"] if row else None


@dataclass(frozen=True)
class Difference:
    """One metric of one tape against its reference."""

    value: int
    percent: float | None
    within_model_error: bool | None  # None if the error is unknown or does not apply


@dataclass(frozen=True)
class Metric:
    """One line of the comparison."""

    name: str
    unit: str
    tier: str
    values: dict[str, int | None]
    error: int | None
    differences: dict[str, Difference | None]


@dataclass(frozen=True)
class Comparison:
    """The result. `sides[0]` is the base."""

    sides: list[Side]
    error_of: tuple[str, str] | None  # (recorded, model): labels of the sides with the error
    references: dict[str, str]  # label: label of its reference
    metrics: list[Metric]

    def json(self) -> dict[str, Any]:
        return {
            "tapes": [
                {
                    "tape": side.label,
                    "role": side.role,
                    "run": side.run,
                    "compared_with": self.references.get(side.label),
                    "lost": side.loss.total,
                    "anomalies": side.loss.anomalies,
                    "kernel_warnings": side.kernel_warnings,
                }
                for side in self.sides
            ],
            "model_error_of": self.error_of
            and dict(zip(("recorded", "model"), self.error_of, strict=True)),
            "metrics": [
                {
                    "metric": m.name,
                    "unit": m.unit,
                    "tier": m.tier,
                    "values": m.values,
                    "model_error": m.error,
                    "differences": {label: d and vars(d) for label, d in m.differences.items()},
                }
                for m in self.metrics
            ],
        }


def _difference(side: Side, reference: Side, metric: str, error: int | None) -> Difference | None:
    mine, other = side.value(metric), reference.value(metric)
    if mine is None or other is None:
        return None
    value = mine - other
    percent = 100 * value / other if other else None
    within = None if side.role != "what-if" or error is None else abs(value) <= error
    return Difference(value, percent, within)


def beside_model(found: dict[str, dict[str, Any]], error: pa.Table) -> list[dict[str, Any]]:
    """Compare the metrics of a replay with those of recording and model in a table model_error.

    The result has the error (recording minus model) and the difference of replay and model.
    """
    known = {row["metric"]: row for row in error.to_pylist()}
    out = []
    for name, row in found.items():
        about = known.get(name, {"recorded": None, "model": None})
        recorded, model = about["recorded"], about["model"]
        bar = None if recorded is None or model is None else abs(model - recorded)
        value = None if model is None else row["value"] - model
        out.append(
            row
            | {"recorded": recorded, "model": model, "model_error": bar, "difference": value}
            | {
                "percent": 100 * value / model if value is not None and model else None,
                "within_model_error": None if value is None or bar is None else abs(value) <= bar,
            }
        )
    return out


def _bar(tapes: Sequence[Tape], sides: Sequence[Side]) -> tuple[Side | None, Side | None]:
    """The recording and the model whose difference is the error: arguments, or from a what-if."""
    recorded = next((s for s in sides if s.role == "recorded"), None)
    model = next((s for s in sides if s.role == "model"), None)
    for tape, side in zip(tapes, sides, strict=True):
        if side.role == "what-if":
            recorded = recorded or Side.of_model_error(tape, "recorded", "recorded")
            model = model or Side.of_model_error(tape, "model", "model")
    return recorded, model


def compare(tapes: Sequence[Tape]) -> Comparison:
    """Compare the first tape with the others. Raises TapeError for an unreadable tape."""
    sides = [Side.of(tape, name) for tape, name in zip(tapes, labels(tapes), strict=True)]
    base = sides[0]
    recorded, model = _bar(tapes, sides)
    references = {
        s.label: model if s.role == "what-if" and model else base for s in sides if s is not base
    }
    feedback = any(s.run and s.run["tier"] == "B" for s in sides)
    names = dict.fromkeys(name for s in sides for name in s.metrics)
    metrics = []
    for name in names:
        about = next(s.metrics[name] for s in sides if name in s.metrics)
        error = None
        if recorded and model and (d := _difference(model, recorded, name, None)):
            error = abs(d.value)
        metrics.append(
            Metric(
                name,
                about["unit"],
                "B" if feedback else about["tier"],
                {s.label: s.value(name) for s in sides},
                error,
                {
                    s.label: _difference(s, references[s.label], name, error)
                    for s in sides
                    if s is not base
                },
            )
        )
    return Comparison(
        sides,
        (recorded.label, model.label) if recorded and model else None,
        {label: side.label for label, side in references.items()},
        metrics,
    )

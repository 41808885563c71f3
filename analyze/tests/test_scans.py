# SPDX-License-Identifier: Apache-2.0
"""How often a command decodes all events of a tape: each time takes as long as the longest pass."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pagetape import cli
from pagetape.schemas.tape import Tape

from .conftest import beginning

PRESSURE = Path(__file__).parents[1] / "demo/pressure.tape"
PARTS = 32  # of a batch: DuckDB reads a few batches ahead where it needs only the first


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return beginning(PRESSURE, tmp_path_factory.mktemp("short") / "short.tape")


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one with each scan of `event` that comes to its end."""
    ended: list[int] = []
    read, grouped = Tape.batches, Tape.grouped

    def in_groups(tape: Tape, *how: Any) -> Iterator[Any]:
        yield from grouped(tape, *how)
        ended.append(1)

    def batches(tape: Tape, name: str, *how: Any) -> Iterator[Any]:
        if name != "event":
            yield from read(tape, name, *how)
            return
        for batch in read(tape, name, *how):
            size = batch.num_rows // PARTS + 1
            yield from (batch.slice(at, size) for at in range(0, batch.num_rows, size))
        ended.append(1)

    monkeypatch.setattr(Tape, "batches", batches)
    monkeypatch.setattr(Tape, "grouped", in_groups)
    return ended


@pytest.mark.parametrize(
    ("command", "nr"),
    [
        ("diagnose", 1),
        ("html -o page.html", 1),
        ("report alloc.failures", 1),
        ("report thp.failures", 1),
        ("report reclaim.min_free", 1),
        ("report extfrag.zones_over_time", 2),
        ("report extfrag.types_over_time", 1),
        ("report events.over_time", 1),
        ("report pcp.by_cpu", 1),
    ],
)
def test_a_command_decodes_all_events_so_many_times(
    command: str,
    nr: int,
    scans: list[int],
    tmp_path: Path,
) -> None:
    words = [str(tmp_path / word) if word == "page.html" else word for word in command.split()]
    assert cli.run([*words, str(PRESSURE)]) == 0
    assert len(scans) == nr


@pytest.mark.parametrize(
    ("command", "read"),
    [
        ("report pcp.by_cpu", "cpu kind page_order percpu_refill ts"),
        ("report extfrag.by_task", "fallback_order flags kind migratetype pfn pid ts"),
    ],
)
def test_a_report_with_one_pass_decodes_only_its_columns(
    command: str, read: str, short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[set[str]] = []
    grouped = Tape.grouped

    def noted(tape: Tape, name: str, columns: Any, *how: Any) -> Iterator[Any]:
        asked.append({*columns})
        yield from grouped(tape, name, columns, *how)

    monkeypatch.setattr(Tape, "grouped", noted)
    assert cli.run([*command.split(), str(short)]) == 0
    assert max(asked, key=len) == {*read.split()}

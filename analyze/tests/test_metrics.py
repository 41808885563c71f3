# SPDX-License-Identifier: Apache-2.0
"""One plan of the report `metrics` for many tapes gives each tape's own metrics."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pagetape.asking.comparison import MetricsOfMany, metrics
from pagetape.schemas.tape import Tape, TapeError


@pytest.fixture
def tapes(golden: Path, small: Path, empty: Path, played: Path) -> list[Tape]:
    """Different machines, a recording and its replay, and a tape of which nothing is known."""
    return [Tape(path) for path in (golden, small, played, empty, golden)]


def test_each_tape_has_its_own_metrics(tapes: list[Tape]) -> None:
    many = MetricsOfMany()
    found = [many.of(tape) for tape in tapes]
    assert found == [metrics(tape) for tape in tapes]
    assert len({str(of_one) for of_one in found}) == len(tapes) - 1


def test_an_error_names_its_tape_and_spoils_no_other(
    golden_with: Callable[[dict[str, Any]], Path], small: Path, golden: Path
) -> None:
    damaged = golden_with({})
    table = damaged / "event.arrow"
    content = bytearray(table.read_bytes())
    third = len(content) // 3
    content[third : 2 * third] = bytes(third)
    many = MetricsOfMany()
    many.of(Tape(small))
    bad = Tape(damaged)
    table.write_bytes(content)
    with pytest.raises(TapeError, match=str(damaged)):
        many.of(bad)
    assert many.of(Tape(golden)) == metrics(Tape(golden))

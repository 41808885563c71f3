# SPDX-License-Identifier: Apache-2.0
"""Shared fixtures of the collector's tests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import livetest
import pyarrow as pa
import pytest
from tracedat import TraceDat

from pagetape.dat_file import DatFile
from pagetape.schemas import TABLES

DATA = Path(__file__).parent / "data"
RECORDINGS = sorted(DATA.glob("*.dat"))

Rows = dict[str, list[dict[str, Any]]]


def read_all(dat: DatFile) -> Rows:
    """All rows of a file, by table."""
    rows: Rows = {"event": [], "reclaim": [], "compaction": [], "stack": []}
    while (item := dat.read()) is not None:
        name, batch = item
        taken = pa.record_batch(batch)
        assert taken.schema.equals(TABLES[name].arrow)
        rows[name] += taken.to_pylist()
    return rows


def pytest_configure(config: pytest.Config) -> None:
    livetest.register(config)


@pytest.fixture
def dat_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes a TraceDat to a file of its own."""

    def write(dat: TraceDat, version: int = 6) -> Path:
        path = tmp_path / f"v{version}.dat"
        path.write_bytes(dat.write(version))
        return path

    return write

# SPDX-License-Identifier: Apache-2.0
"""A fleet from end to end: shipper, compactor and worker are killed, and no answer changes."""

import random
from pathlib import Path

import fleet_trial
import pytest

from .fleet_archive import copied


def test_kills_change_no_answer(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The laboratory's trial, with one kill of each."""
    monkeypatch.setattr(fleet_trial, "REPORTS", (("fleet.coverage",),))
    made = tmp_path / "tapes"
    made.mkdir()
    for host, kernel in (("a", "6.12.1"), ("b", "6.18.2")):
        path = copied(small, tmp_path / f"{host}.tape", host, kernel=kernel)
        path.rename(made / path.name)
    found = fleet_trial.trial(tmp_path, made, "nofragment:mode=off", 1, random.Random(1))
    assert found["fleet"] == {
        "objects": 2,
        "objects are the same": True,
        "tapes in the index": 2,
        "runs": 2,
        "failed": 0,
    }
    assert [step["kills"] for step in found["steps"] if "kills" in step] == [1, 1, 1]
    assert [step["same"] for step in found["steps"] if "same" in step] == [True, True]

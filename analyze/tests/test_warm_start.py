# SPDX-License-Identifier: Apache-2.0
"""Per-CPU lists of a what-if that begins after a warm-up."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from pagetape.replaying.playback import Playback, Run, Source
from pagetape.replaying.warm_start import tuned, warmed
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape

FIXED = {"snapshot": 0, "node": 0, "zone": "NORMAL", "count": 40, "high": 60, "batch": 63}


def lists(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_batches([TABLES["pcp"].batch(list(rows))])


def test_only_lists_with_other_limits_get_the_size_of_the_end() -> None:
    tuning = {"high_min": 63, "high_max": 500}
    start = lists(
        FIXED | {"cpu": 0, "high_min": 60, "high_max": 60}, FIXED | tuning | {"cpu": 1, "high": 99}
    )
    end = lists(FIXED | tuning | {"cpu": 0, "high": 480}, FIXED | tuning | {"cpu": 1, "high": 300})
    found = [(row["high"], row["high_max"], row["count"]) for row in tuned(start, end).to_pylist()]
    assert found == [(480, 500, 40), (99, 500, 40)]


def test_a_warmed_source_begins_with_the_new_size(small: Path, tmp_path: Path) -> None:
    source = Source(Tape(small))
    run = Run("auto", ("pcp:percpu_pagelist_high_fraction=8",))
    warm = warmed(source, run, tmp_path / "near")
    assert {row["high"] for row in warm.lists.to_pylist()} == {2048}
    assert {row["high"] for row in source.lists.to_pylist()} == {64}
    with Playback(warm, run) as playback:
        assert not playback.play(lambda _: None)["anomalies"]

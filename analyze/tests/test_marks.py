# SPDX-License-Identifier: Apache-2.0
"""Free pages of a run under other watermarks follow the marks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from statistics import median

import pytest

from pagetape.replaying.playback import NewTape, Run, Source, play
from pagetape.replaying.validation import inferred, preferences
from pagetape.schemas.tape import Tape

PRESSURE = Path(__file__).parents[1] / "demo/pressure.tape"
SHORT = (1, "DMA32")  # the zone that is short most of the time
MIN_KB, HIGH = 2332, 489  # of the tape: the sum of min, and the high watermark of that zone
MANAGED = 48171


@pytest.fixture(scope="module")
def source() -> Source:
    tape = Tape(PRESSURE)
    return Source(tape, inferred(tape), preferences(tape))


def free_pages(source: Source, out: Path, *policies: str) -> float:
    """The median of the zone's free pages over the run, under reclaim of the model's own."""
    play(source, Run("auto", policies, "R1"), NewTape(out, counted=True))
    free: Counter[int] = Counter()
    for row in Tape(out).rows("free_count"):
        if (row["node"], row["zone"]) == SHORT:
            free[row["ts"]] += row["nr_free"] << row["page_order"]
    return median(free.values())


@pytest.mark.parametrize(
    ("policy", "high"),
    [
        ("watermarks:watermark_scale_factor=50", 327 + 2 * (MANAGED * 50 // 10000)),
        (f"watermarks:min_free_kbytes={4 * MIN_KB}", 4 * HIGH),
    ],
)
def test_free_pages_rise_with_the_high_mark(
    source: Source, tmp_path: Path, policy: str, high: int
) -> None:
    """Boosts, which are up to 150 % of high, rise with it."""
    rise = free_pages(source, tmp_path / "this.tape", policy)
    rise -= free_pages(source, tmp_path / "own.tape")
    assert 0.7 * (high - HIGH) < rise < 2.5 * (high - HIGH)

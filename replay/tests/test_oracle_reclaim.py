# SPDX-License-Identifier: Apache-2.0
"""The slow path with reclaim of the model's own (R1): the oracle against the C engine."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagetape import _replay

from .feedback import play_engine, play_oracle
from .generate import LARGE_REQUESTS, REQUESTS, Op, Shape, random_world, record
from .outcome import difference
from .test_differential import OPS, PROFILE

ROWS = [row["name"] for row in _replay.kernels()]
LATER = ROWS[ROWS.index("4.20") :]  # 2.6 wakes kswapd by other marks
DEFRAG = ROWS[ROWS.index("6.17") :]
SMALL = Shape(pageblock_orders=(4, 5), sizes=(2, 5, 16, 40), cma=(0, 0, 2))


def agree(kernel: str, seed: int, ops: list[Op], *, defrag_mode: bool = False) -> None:
    here = random_world(seed, SMALL)
    # Without kswapd on the tape, the engine takes a start without its work.
    here.zones = [replace(zone, boost=0, reclaim_active=False) for zone in here.zones]
    rows = record(here, "6.18", ops, requests=REQUESTS + LARGE_REQUESTS, singles=True).rows
    expected, calls = play_oracle(here, kernel, rows, defrag_mode=defrag_mode)
    got, called = play_engine(here, kernel, rows, defrag_mode=defrag_mode)
    assert called == calls
    if parting := difference(expected, got):
        pytest.fail(parting, pytrace=False)


@pytest.mark.parametrize("kernel", LATER)
@settings(PROFILE, max_examples=PROFILE.max_examples // 2)
@given(seed=st.integers(0, 10**6), ops=OPS)
def test_engine_and_oracle_agree_where_requests_reclaim(
    kernel: str, seed: int, ops: list[Op]
) -> None:
    agree(kernel, seed, ops)


@pytest.mark.parametrize("kernel", DEFRAG)
@settings(PROFILE, max_examples=PROFILE.max_examples // 2)
@given(seed=st.integers(0, 10**6), ops=OPS)
def test_engine_and_oracle_agree_under_defrag_mode(kernel: str, seed: int, ops: list[Op]) -> None:
    agree(kernel, seed, ops, defrag_mode=True)

# SPDX-License-Identifier: Apache-2.0
"""Tapes of the event set zone: the C engine against the oracle, with refills and drains as
requests.

Each tape is recorded on the oracle of one kernel and played under every row of the feature matrix.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .boundary import Boundary, lists_up_to
from .generate import Op, random_world, record
from .oracle import KERNELS, Nofragment
from .outcome import Outcome, difference, oracle_outcome, play
from .test_differential import OPS, POLICIES, PROFILE, RECORDED, ROWS
from .world import build

# Of what the lists serve by themselves, a tape of the boundary tells nothing.
_OF_LISTS = ("allocs", "alloc_pages", "frees", "free_pages", "pcp_hits", "decays", "decay_pages")


def beyond_lists(outcome: Outcome) -> Outcome:
    """Without what only the lists show."""
    counters = {n: nr for n, nr in outcome.counters.items() if n not in _OF_LISTS}
    return replace(outcome, pcps={}, counters=counters)


@pytest.mark.parametrize("kernel", ROWS)
@settings(PROFILE, max_examples=PROFILE.max_examples // 4)
@given(seed=st.integers(0, 10**6), recorded=RECORDED, nofragment=POLICIES, ops=OPS)
def test_engine_and_oracle_agree_on_refills_and_drains(
    kernel: str,
    seed: int,
    recorded: str,
    nofragment: Nofragment | None,
    ops: list[Op],
) -> None:
    # 5.10 has no other lists, so they have no pages there.
    here = lists_up_to(random_world(seed), range(11 if recorded != "5.10" else 1))
    rows = record(here, recorded, ops).boundary
    machine = build(lists_up_to(here, ()), KERNELS[kernel], nofragment)
    Boundary(machine).play(rows, recorded)
    policies = [f"nofragment:mode={nofragment}"] if nofragment else []
    got = play(here, kernel, rows, policies=policies, zone_events=True, recorded_kernel=recorded)
    if parting := difference(beyond_lists(oracle_outcome(machine)), beyond_lists(got)):
        pytest.fail(parting, pytrace=False)

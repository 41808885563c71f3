# SPDX-License-Identifier: Apache-2.0
"""The C engine against the oracle: same snapshot, same requests, same events and end state.

Each tape is recorded on the oracle of one kernel and played under every row of the feature
matrix, by the oracle and by the engine. The laboratory runs more examples (matrix.py), and
HYPOTHESIS_PROFILE=nightly still more.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from itertools import takewhile

import matrix
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pagetape import _replay

from .generate import LARGE_PAGES, MOSTLY_CMA, Op, Shape, random_world, record
from .oracle import KERNELS, Nofragment
from .outcome import difference, oracle_outcome, play
from .tapes import Player
from .world import build

_common = settings(deadline=None, suppress_health_check=list(HealthCheck))
settings.register_profile(
    "suite",
    _common,
    max_examples=matrix.number(8, 20),
    derandomize=True,
    database=None,
    phases=[Phase.generate],  # shrinking takes minutes: only nightly shrinks
)
settings.register_profile("nightly", _common, max_examples=1000, print_blob=True)
PROFILE = settings.get_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))

ROWS = [row["name"] for row in _replay.kernels()]
ONE_EVENT_A_FREE = ROWS[ROWS.index("4.20") :]  # earlier kernels trace the free of one page twice
RECORDED = st.sampled_from(["5.10", "6.1.192", "6.18"])
POLICIES: st.SearchStrategy[Nofragment | None] = st.sampled_from(
    [None, None, "off", "lowzone", "always"]
)
OPS = st.lists(
    st.tuples(st.integers(0, 99), st.integers(0, 9999), st.integers(0, 9999)),
    min_size=50,
    max_size=250,
)


def test_every_row_has_an_oracle() -> None:
    assert set(ROWS) == set(KERNELS)


@dataclass(frozen=True)
class Recording:
    """A tape to be made, and the policy to play it under."""

    seed: int  # of the world
    ragged: bool
    reclaim_events: bool
    recorded: str  # kernel of the recorded machine
    nofragment: Nofragment | None
    ops: list[Op]


RECORDINGS = st.builds(
    Recording,
    seed=st.integers(0, 10**6),
    ragged=st.booleans(),
    reclaim_events=st.booleans(),
    recorded=RECORDED,
    nofragment=POLICIES,
    ops=OPS,
)


@pytest.mark.parametrize("kernel", ROWS)
@settings(PROFILE, max_examples=PROFILE.max_examples // 2)
@given(recording=RECORDINGS)
def test_engine_and_oracle_agree(kernel: str, recording: Recording) -> None:
    here = random_world(recording.seed, ragged=recording.ragged)
    rows = record(
        here, recording.recorded, recording.ops, reclaim_events=recording.reclaim_events
    ).rows
    machine = build(here, KERNELS[kernel], recording.nofragment)
    Player(machine, rows)
    policies = [f"nofragment:mode={recording.nofragment}"] if recording.nofragment else []
    got = play(here, kernel, rows, policies=policies)
    if parting := difference(oracle_outcome(machine), got):
        pytest.fail(parting, pytrace=False)


# Before 5.10 nothing balances, 5.10 begins; the families of fallbacks; the newest row.
@pytest.mark.parametrize("kernel", ["5.0", "5.10", "6.12.19", ROWS[-1]])
@pytest.mark.parametrize("shape", [LARGE_PAGES, MOSTLY_CMA], ids=["large pages", "mostly CMA"])
@settings(PROFILE, max_examples=PROFILE.max_examples // 4)
@given(seed=st.integers(0, 10**6), recorded=RECORDED, ops=OPS)
def test_engine_and_oracle_agree_on_other_machines(
    kernel: str, shape: Shape, seed: int, recorded: str, ops: list[Op]
) -> None:
    here = random_world(seed, shape)
    rows = record(here, recorded, ops).rows
    machine = build(here, KERNELS[kernel])
    Player(machine, rows)
    if parting := difference(oracle_outcome(machine), play(here, kernel, rows)):
        pytest.fail(parting, pytrace=False)


# The fields of an oracle row that the policy fallback takes over.
FAMILY = (
    "fallback",
    "claim_tests_list_type",
    "retype_larger_chunks",
    "merge_guard",
    "moved_block_to",
    "drained_to",
    "free_by_block",
    "highatomic_by_order",
)
# Without 2.6: the oracle cannot separate its fallbacks from MIGRATE_RESERVE.
FAMILIES = st.sampled_from([row for row in ROWS if not row.startswith("2.6")])


# The oracle knows where zone_locked fires up to 5.14 only for the fallbacks of those rows.
@pytest.mark.parametrize("kernel", ["5.19", "6.8", "6.18"])
@PROFILE
@given(seed=st.integers(0, 10**6), recorded=RECORDED, family=FAMILIES, ops=OPS)
def test_engine_and_oracle_agree_on_the_fallbacks_of_another_row(
    kernel: str, seed: int, recorded: str, family: str, ops: list[Op]
) -> None:
    here = random_world(seed)
    rows = record(here, recorded, ops).rows
    taken = {name: getattr(KERNELS[family], name) for name in FAMILY}
    machine = build(here, replace(KERNELS[kernel], **taken))
    Player(machine, rows)
    got = play(here, kernel, rows, policies=[f"fallback:kernel={family}"])
    if parting := difference(oracle_outcome(machine), got):
        pytest.fail(parting, pytrace=False)


@PROFILE
@given(seed=st.integers(0, 10**6), recorded=st.sampled_from(ONE_EVENT_A_FREE), ops=OPS)
def test_a_kernel_s_own_tape_comes_out_as_it_went_in(
    seed: int, recorded: str, ops: list[Op]
) -> None:
    """The tape ends before the first failed request: the engine does not play those."""
    here = random_world(seed)
    rows = [*takewhile(lambda row: row.event.pfn is not None, record(here, recorded, ops).rows)]
    requests = ("alloc", "free", "free_batched")
    out = [event for event in play(here, recorded, rows).events if event.kind in requests]
    assert out == [row.event for row in rows]

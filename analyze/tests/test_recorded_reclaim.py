# SPDX-License-Identifier: Apache-2.0
"""The rows of `reclaim` that an engine plays, against all of them."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagetape.replaying import engine_run, recorded_reclaim
from pagetape.replaying.playback import Playback, Run, Source
from pagetape.replaying.validation import inferred
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape

DEMO = Path(__file__).parents[1] / "demo"
RECLAIM = TABLES["reclaim"]
PLAYED = {
    *("kswapd_wake", "kswapd_sleep", "wakeup_kswapd", "vmstat_update"),
    *("direct_reclaim_begin", "direct_reclaim_end"),
}


class Rows:
    """A tape with these rows of `reclaim`."""

    def __init__(self, *batches: list[dict[str, Any]]) -> None:
        self._batches = [RECLAIM.batch(rows) for rows in batches]

    def batches(self, name: str, columns: set[str]) -> list[pa.RecordBatch]:
        assert name == "reclaim"
        return [
            batch.select([n for n in batch.schema.names if n in columns]) for batch in self._batches
        ]


def row(at: int, pid: int, kind: str) -> dict[str, Any]:
    return {"ts": at, "cpu": 0, "pid": pid, "flags": 0, "at": at, "kind": kind, "node": 0}


def expected(rows: list[dict[str, Any]]) -> list[int]:
    """Row by row: what an engine plays, and the last other row of each kswapd before these."""
    found: list[int] = []
    kswapds: set[int] = set()
    last: dict[int, int] = {}  # by kswapd
    for one in rows:
        pid = one["pid"]
        if one["kind"] not in PLAYED:
            last |= {pid: one["at"]} if pid in kswapds else {}
            continue
        found.append(one["at"])
        if "kswapd" in one["kind"]:
            found += last.values()
            last.clear()
            kswapds |= {pid} if one["kind"] == "kswapd_wake" else set()
    return sorted([*found, *last.values()])


KINDS = st.sampled_from([*sorted(PLAYED), "lru_isolate", "shrink_slab_end", "throttled"])


@given(st.lists(st.tuples(st.integers(1, 3), KINDS), max_size=40))
def test_the_last_row_of_a_pass_stands_for_those_before(events: list[tuple[int, str]]) -> None:
    rows = [row(at, *one) for at, one in enumerate(events)]
    found = [at for batch in recorded_reclaim.batches(Rows(rows)) for at in batch["at"].to_pylist()]
    assert set(found) >= set(expected(rows))  # a kswapd is known from the batch of its first pass
    assert found == sorted(set(found))
    others = {one["at"] for one in rows if one["kind"] not in PLAYED}
    assert len(others & set(found)) <= len(events) / 2 + 3


def test_a_kswapd_stays_known_in_later_batches() -> None:
    seen = [row(at, 7, "lru_isolate") for at in range(1, 5)]
    batches = recorded_reclaim.batches(Rows([row(0, 7, "kswapd_wake")], seen, []))
    (first, second) = batches
    assert first["at"].to_pylist() == [0] and second["at"].to_pylist() == [4]
    assert first.schema.equals(RECLAIM.arrow) and first["nr_scanned"].null_count == 1


@pytest.mark.parametrize("name", ["pressure", "server"])
def test_a_run_has_the_same_result_with_all_rows(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def result() -> dict[str, Any]:
        tape = Tape(DEMO / f"{name}.tape")
        with Playback(Source(tape, inferred(tape)), Run("auto", ())) as run:
            for batch in engine_run.event_batches(tape):
                run.feed(batch)
            return run.finish()

    few = result()
    monkeypatch.setattr(recorded_reclaim, "batches", lambda tape: tape.batches("reclaim"))
    all_rows = result()
    for one in (few, all_rows):
        one.pop("events_per_s", None)
    for name in ("boosted_ns", "boost_saturated_ns"):  # an end is noticed at the next row
        boosted, of_all = (one["totals"][name].pop("value") for one in (few, all_rows))
        assert boosted == pytest.approx(of_all, rel=1e-4)
    assert few == all_rows

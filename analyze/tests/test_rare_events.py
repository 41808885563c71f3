# SPDX-License-Identifier: Apache-2.0
"""Reports about few events decode few batches, and find what all batches have."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pagetape.asking import sequence_dataset
from pagetape.asking.rare_events import EventsNearSnapshots, RareEvents
from pagetape.asking.sequence_dataset import KeptDataset, SharedPass
from pagetape.schemas import TABLES
from pagetape.schemas.form import in_groups
from pagetape.schemas.table_file import Glance
from pagetape.schemas.tape import Tape
from pagetape.tapes import output

DEMO = Path(__file__).parents[1] / "demo"


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Tape:
    """The bundled recording in the form of today, with no rare event in its first batches."""
    old = Tape(DEMO / "pressure.tape")
    path = tmp_path_factory.mktemp("rare") / "pressure.tape"
    with output.whole_tape(path, old.facts, replace=True, inputs=[]) as out:
        for name in sorted(old.tables - {"event"}):
            for batch in old.batches(name):
                out.write(name, batch)
        for number, batch in enumerate(old.batches("event")):
            out.write("event", batch if number > 20 else batch.filter(pc.invert(rare(batch))))
    return Tape(path)


def scanned(dataset: KeptDataset) -> pa.Table:
    SharedPass().join(dataset)
    names = dataset.schema.names
    return pa.Table.from_batches(dataset.scanner(names).to_reader(), dataset.schema)


def chosen(dataset: KeptDataset) -> list[bool]:
    """Which batches of the tape the dataset has decoded."""
    found: list[bool] = []

    def choose(glances: list[Glance]) -> list[bool]:
        found.extend(dataset.chooser()(glances))
        return found

    list(dataset.tape.batches("event", ["ts"], ("pfn", choose)))
    return found


def rare(batch: pa.RecordBatch) -> pa.Array:
    kind = batch["kind"].cast("utf8")
    return pc.or_(
        pc.equal(kind, "alloc_extfrag"), pc.and_(pc.equal(kind, "alloc"), pc.is_null(batch["pfn"]))
    )


def near(batch: pa.RecordBatch) -> pa.Array:
    rows = Tape(DEMO / "pressure.tape").rows("pageblock")
    spans = {(row["ts"], row["flags_ts"]) for row in rows if row["flags_ts"] is not None}
    found = pc.equal(batch["ts"], 0)
    for span in spans:
        first, last = min(span), max(span)
        of_span = pc.and_(pc.greater_equal(batch["ts"], first), pc.less_equal(batch["ts"], last))
        found = pc.or_(found, of_span)
    return found


@pytest.mark.parametrize(("made", "which"), [(RareEvents, rare), (EventsNearSnapshots, near)])
def test_the_chosen_batches_have_all_rows(
    made: type[KeptDataset],
    which: Callable[[pa.RecordBatch], pa.Array],
    tape: Tape,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also of the parts that are joined: small ones would scatter over the heap."""
    monkeypatch.setattr(sequence_dataset, "_PARTS", 2)

    def expected() -> Iterator[pa.RecordBatch]:
        for batch in tape.batches("event"):
            yield batch.filter(which(batch))

    dataset = made(tape, (0, 1 << 63))
    found = scanned(dataset)
    wanted = pa.Table.from_batches(filter(len, expected()), dataset.schema)
    assert found.num_rows and found == wanted
    assert found["ts"].num_chunks <= wanted["ts"].num_chunks // 2 + 1
    assert not all(chosen(made(tape, (0, 1 << 63))))


def test_a_dataset_too_large_to_be_kept_has_its_rows_too(
    tape: Tape, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = scanned(RareEvents(tape, (0, 1 << 63)))
    monkeypatch.setattr("pagetape.asking.sequence_dataset._KEPT", 3)
    assert scanned(RareEvents(tape, (0, 1 << 63))) == whole


@pytest.mark.parametrize("kinds", [{"free", "alloc_extfrag"}, {"alloc"}, set()])
def test_rows_of_some_kinds_and_rows_by_groups_are_those_of_all(
    kinds: set[str], tape: Tape
) -> None:
    names = ["ts", "cpu", "kind", "pfn", "page_order", "migratetype", "gfp_flags"]
    first = next(batch for batch in tape.batches("event", names) if len(batch))
    wanted = first.filter(pc.is_in(first["kind"].cast("utf8"), pa.array([*kinds], pa.utf8())))
    some = tape.batches("event", names, None, kinds)
    assert next(batch for batch in some if len(batch) or not kinds) == wanted
    groups = next(filter(len, tape.grouped("event", names)))
    assert groups.taken(names, pa.array(range(len(first)))) == first
    assert next(in_groups(first, TABLES["event"])).taken(names, pa.array([5, 3])) == first.take(
        pa.array([5, 3])
    )


def test_a_table_in_the_order_of_time_is_read_whole() -> None:
    old = Tape(DEMO / "pressure.tape")
    rows = sum(map(len, old.batches("event", ["ts"], ("pfn", lambda _: [False] * 99))))
    assert rows == old.num_rows("event")

# SPDX-License-Identifier: Apache-2.0
"""`pagetape report` with filters: parts add up to the whole; what has no parts is refused."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pagetape.asking import filters, needs, query
from pagetape.schemas.tape import Tape

Run = Callable[..., Any]

DEMO = Path("analyze/tests/data/pressure.tape")
SERVER = Path("analyze/tests/data/server.tape")


def rows(pagetape: Run, name: str, *args: object) -> list[dict[str, Any]]:
    found = pagetape("report", name, *args, "--json")
    assert found.status == 0, found.err
    return list(found.json["rows"])


def total(found: list[dict[str, Any]], column: str = "nr") -> int:
    return sum(row[column] for row in found)


def kinds(found: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """The counts of extfrag.by_migratetype by what they count."""
    return Counter({tuple(v for k, v in row.items() if k != "nr"): row["nr"] for row in found})


def test_two_times_add_up_to_the_whole_tape(pagetape: Run) -> None:
    for name in ("extfrag.by_migratetype", "alloc.by_order"):
        whole = total(rows(pagetape, name, DEMO))
        parts = [
            total(rows(pagetape, name, DEMO, *cut)) for cut in (("--until", "3"), ("--since", "3s"))
        ]
        assert sum(parts) == whole
        assert all(parts)


def test_a_time_from_the_end_is_the_same_time(pagetape: Run) -> None:
    start, end = Tape(DEMO).clock or (0, 0)
    length = (end - start) / 1e9
    last = rows(pagetape, "alloc.by_order", DEMO, "--since", "-2s")
    assert last == rows(pagetape, "alloc.by_order", DEMO, "--since", f"{length - 2:.9f}")
    assert 0 < total(last) < total(rows(pagetape, "alloc.by_order", DEMO))


def test_intervals_have_the_times_that_they_have_without_a_filter(pagetape: Run) -> None:
    every = rows(pagetape, "extfrag.over_time", DEMO)
    some = rows(pagetape, "extfrag.over_time", DEMO, "--since", "2s", "--until", "4s")
    assert some == [row for row in every if 2 <= row["at_s"] < 4] != []


def test_zones_and_nodes_add_up(pagetape: Run) -> None:
    tape = Tape(DEMO)
    zones = {row["zone"] for row in tape.rows("zone") if row["spanned"]}
    whole = kinds(rows(pagetape, "extfrag.by_migratetype", DEMO))
    by_zone = [kinds(rows(pagetape, "extfrag.by_migratetype", DEMO, "--zone", z)) for z in zones]
    assert sum(by_zone, Counter()) == whole
    nodes = [kinds(rows(pagetape, "extfrag.by_migratetype", DEMO, "--node", n)) for n in (0, 1)]
    assert sum(nodes, Counter()) == whole
    assert all(nodes)
    for row in rows(pagetape, "extfrag.by_zone", DEMO, "--node", 1):
        assert row["node"] == 1


def test_a_task_has_its_own_row(pagetape: Run) -> None:
    every = rows(pagetape, "alloc.by_task", SERVER, "--where", "allocs > 0")
    name = every[-1]["comm"]
    (one,) = rows(pagetape, "alloc.by_task", SERVER, "--task", name)
    assert one == every[-1]
    by_order = rows(pagetape, "alloc.by_order", SERVER, "--task", name)
    assert total(by_order) == one["allocs"]


def test_a_thread_has_a_number(pagetape: Run) -> None:
    pid = Counter(Tape(SERVER).table("event")["pid"].to_pylist()).most_common(1)[0][0]
    assert rows(pagetape, "alloc.by_order", SERVER, "--task", pid)


def test_a_condition_acts_before_the_limit_of_a_report(pagetape: Run) -> None:
    few = rows(pagetape, "alloc.by_task", SERVER, "--top", 1)
    assert len(few) == 1
    other = rows(pagetape, "alloc.by_task", SERVER, "--where", f"comm <> '{few[0]['comm']}'")
    assert other and few[0] not in other
    pages = [row["pages"] for row in rows(pagetape, "alloc.by_task", SERVER, "--sort", "pages")]
    assert pages == sorted(pages)
    pages = [
        row["pages"] for row in rows(pagetape, "alloc.by_task", SERVER, "--sort", "-pages,comm")
    ]
    assert pages == sorted(pages, reverse=True)


def test_filters_are_said(pagetape: Run) -> None:
    found = pagetape("report", "alloc.by_order", DEMO, "--node", 0, "--limit", 1, "--since", "1s")
    said = found.out.splitlines()
    assert "only events of node 0" in said
    assert any(line.startswith("only the time from 1 s to its end of the tape") for line in said)
    assert any(line.startswith("1 of ") for line in said)
    found = pagetape("report", "alloc.by_order", DEMO, "--node", 0, "--limit", 1, "--json")
    assert found.json["filters"] == {"node": 0, "limit": 1}
    assert len(found.json["rows"]) == 1


def test_csv_and_arrow_have_the_rows(pagetape: Run, tmp_path: Path) -> None:
    expected = rows(pagetape, "extfrag.by_task", SERVER)
    found = pagetape("report", "extfrag.by_task", SERVER, "--csv")
    read = list(csv.DictReader(io.StringIO(found.out)))
    assert [row["comm"] for row in read] == [row["comm"] for row in expected]
    assert [int(row["nr"]) for row in read] == [row["nr"] for row in expected]
    assert "lost: " in found.err and "lost: " not in found.out
    out = tmp_path / "rows.arrow"
    assert pagetape("report", "extfrag.by_task", SERVER, "--arrow", out, "--limit", 1).status == 0
    assert pa.ipc.open_file(out).read_all().to_pylist() == expected
    again = pagetape("report", "extfrag.by_task", SERVER, "--arrow", out)
    assert again.status == 1 and str(out) in again.err
    assert pagetape("report", "extfrag.by_task", SERVER, "--arrow", out, "--force").status == 0


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("kswapd.balance", DEMO, "--zone", "DMA"), "--zone DMA: kswapd.balance follows"),
        (("frag.pageblocks", DEMO, "--since", "1s"), "shows the state at the snapshots"),
        (("alloc.by_task", SERVER, "--task", "swappd"), "no task 'swappd'"),
        (("alloc.by_task", DEMO, "--zone", "nrml"), "no zone 'nrml'"),
        (("alloc.by_task", DEMO, "--node", "7"), "no node '7'"),
        (("alloc.by_task", SERVER, "--sort", "size"), "has no column 'size'"),
        (("alloc.by_task", SERVER, "--where", "size > 1"), "--where 'size > 1'"),
        (("alloc.by_task", SERVER, "--where", "comm ="), "--where 'comm ='"),
        (("alloc.by_task", SERVER, "--since", "later"), "'later' is not a span of time"),
        (("alloc.by_task", SERVER, "--csv", "--json"), "--json and --csv"),
    ],
)
def test_a_filter_without_a_meaning_is_refused_in_words(
    args: tuple[object, ...], said: str, pagetape: Run
) -> None:
    found = pagetape("report", *args)
    assert found.status == 2
    assert said in found.err
    assert len(found.err.splitlines()) == 1
    assert found.out == ""


def test_every_report_takes_every_filter_or_says_why_not(pagetape: Run) -> None:
    tapes = [Tape(SERVER)]
    taken = Counter[str]()
    for q in query.about_tapes().values():
        for name, value in (("since", 1.0), ("zone", "DMA32"), ("node", 0), ("task", "kswapd0")):
            try:
                part = filters.part(q, tapes, {}, filters.Filters()._replace(**{name: value}))
            except query.ParameterError as e:
                assert q.name in str(e)
                continue
            taken[name] += 1
            assert part.said
        if not q.whole and needs.tables(q) <= {"event", "task", "snapshot", "zone"}:
            assert pagetape("report", q.name, SERVER, "--since", "1s", "--limit", 1).status == 0
    assert min(taken[name] for name in ("since", "zone", "node", "task")) > 10

# SPDX-License-Identifier: Apache-2.0
"""Questions over an archive: every answer equals sums over the tapes themselves."""

import json
import math
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import archives
import matrix
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from archives import S, allocs, fallbacks, made

from pagetape.archive import names
from pagetape.archive.store import Store
from pagetape.asking import archived, query
from pagetape.asking.database import Database
from pagetape.indexing import host_rows
from pagetape.indexing.compact import Compactor, dates
from pagetape.schemas.tape import Tape, Writer
from pagetape.tapes.loss import Loss

from .conftest import beginning

Run = Callable[..., Any]
DATA = Path("analyze/tests/data")
ANSWERED = [name for name in query.about_tapes() if query.of_index(name)]
ROUNDED = {"total_us": 0.5, "total_ms": 5e-3}  # the reports round the sums of each tape


def compacted(store: Store) -> Store:
    for day in dates(store):
        Compactor(store).run(day)
    return store


@pytest.fixture(scope="session")
def tapes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two real tapes, three hosts of two kernels, one of them without a fallback, and a host whose
    recorder had fallbacks and allocations switched off. Two tapes have no event."""
    place = tmp_path_factory.mktemp("fleet")
    real = {}
    for name in ("pressure", "server"):
        real[name] = archives.packed(beginning(DATA / f"{name}.tape", place / f"{name}.tape"))
    old, new = {"kernel": "6.12.5"}, {"kernel": "6.18.1"}
    other = new | {"events": ["kmem:mm_page_free"]}
    return real | {
        "a1": made(place, "a", "2026-11-28T10:00:00", 3600, fallbacks(6) + allocs(9, 2), **old),
        "a2": made(place, "a", "2026-11-29T10:00:00", 1800, **old),
        "b1": made(place, "b", "2026-11-29T11:00:00", 600, fallbacks(5, 1, 10), **old),
        "c1": made(place, "c", "2026-11-29T12:00:00", 7200, allocs(4, 1, 9), **new),
        # Two tapes of one host on one day have one row by host.
        "c2": made(place, "c", "2026-11-30T00:00:00", 1800, allocs(2, 0, 9), **new),
        "c3": made(place, "c", "2026-11-30T01:00:00", 1800, allocs(3, 0, 9), **new),
        "d1": made(place, "d", "2026-11-29T13:00:00", 3600, **other),
    }


@pytest.fixture(scope="session")
def fleet(tapes: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Store:
    root = tmp_path_factory.mktemp("archive") / "fleet"
    return compacted(archives.archived(root, [*tapes.values()]))


def hours(path: Path) -> float:
    """What a tape covers: from its first to its last instant of any table."""
    tape = Tape(path)
    moments = [*(tape.clock or ()), *(row["ts"] for row in tape.rows("snapshot"))]
    for name in ("vmstat", "sample"):
        moments += [ts for ts in tape.table(name)["ts"].to_pylist() if ts]
    return (max(moments) - min(moments)) / 3600 / S


def percentile(values: Iterable[float], share: float) -> float:
    """Between the two values at the place, as numpy's default does it."""
    known = sorted(values)
    place = share * (len(known) - 1)
    low = math.floor(place)
    return known[low] + (place - low) * (known[min(low + 1, len(known) - 1)] - known[low])


@pytest.fixture(scope="module")
def opened(tapes: dict[str, Path]) -> Iterator[dict[Path, Database]]:
    """The tapes, each opened once for all of its reports."""
    with ExitStack() as stack:
        yield {one: stack.enter_context(Database([Tape(one)])) for one in tapes.values()}


def expected(
    name: str, tapes: dict[str, Path], opened: dict[Path, Database]
) -> dict[tuple[Any, ...], Any]:
    """By what a row counts: the sums over the tapes' own reports, and the count of each host."""
    q = query.internal()[query.FLEET + name]
    columns = [column.name for column in q.columns][1:]
    keys, sums = columns[: columns.index("nr")], columns[columns.index("nr") :]
    found: dict[tuple[Any, ...], Any] = {}
    for path in tapes.values():
        rows = opened[path].run(query.reports()[name]).objects()
        if name == "loss":
            rows = [{"nr": Loss.of(Tape(path)).total}]
        if name == "thp.over_time":  # a row for each second, which the index adds up
            rows = [row | {"nr": row["requests"]} for row in rows if row["requests"]]
        for row in rows:
            total, hosts = found.setdefault(tuple(row[k] for k in keys), ({}, defaultdict(int)))
            for one in sums:
                if row[one] is not None:
                    total[one] = total.get(one, 0) + row[one]
            hosts[names.machine(Tape(path).facts)] += row["nr"]
    return found


@pytest.mark.parametrize("name", ANSWERED)
def test_the_index_answers_as_the_tapes_do(
    name: str,
    fleet: Store,
    tapes: dict[str, Path],
    opened: dict[Path, Database],
    pagetape: Run,
) -> None:
    """Sums, rates, and percentiles over hosts, with the hours of the tapes without events."""
    found = pagetape("report", name, fleet.root, "--json").json
    known = {one: path for one, path in tapes.items() if one != "d1" or name in MEASURED_BY_D}
    sums = expected(name, known, opened)
    keys = found["columns"][: found["columns"].index("nr")]
    assert {tuple(row[k] for k in keys) for row in found["rows"]} == sums.keys()
    covered: dict[str, float] = defaultdict(float)
    for path in known.values():
        covered[names.machine(Tape(path).facts)] += hours(path)
    for row in found["rows"]:
        total, hosts = sums[tuple(row[k] for k in keys)]
        for one, value in total.items():
            assert row[one] == pytest.approx(value, rel=1e-9, abs=ROUNDED.get(one, 0)), one
        rates = [hosts[machine] / covered[machine] for machine in covered]
        assert row["hosts"] == len(covered) and row["tapes"] == len(known)
        assert row["hosts_with"] == sum(nr > 0 for nr in hosts.values())
        assert row["hours"] == pytest.approx(sum(covered.values()), abs=1e-3)
        assert row["per_hour"] == pytest.approx(row["nr"] / sum(covered.values()), abs=1e-5)
        for share in (50, 90, 99):
            of_hosts = percentile(rates, share / 100)
            assert row[f"p{share}"] == pytest.approx(of_hosts, rel=1e-6, abs=1e-5)


EVERY = [*ANSWERED, *(name for name in query.reports() if name.startswith(query.FLEET))]
OF_EACH_KIND = ("extfrag.by_migratetype", "fleet.regressions")
SHORT = {*OF_EACH_KIND, *matrix.some(EVERY, 3)}
CHOICES = ([], ["--where", "kernel LIKE '6.12%'"], ["--since", "2026-11-29T10:30"])


@pytest.mark.parametrize("name", [name for name in EVERY if name in SHORT])
def test_rows_by_host_answer_as_rows_by_tape_do(
    name: str, fleet: Store, pagetape: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same answer from the sums of hosts, from tapes, and from both: the first of three days is
    left out, the second has tapes on both sides of the moment."""
    choices = CHOICES if matrix.WHOLE or name in OF_EACH_KIND else CHOICES[-1:]
    by_host = [pagetape("report", name, fleet.root, *some, "--json").json for some in choices]
    monkeypatch.setattr(host_rows, "can_choose", lambda _condition: False)
    for some, found in zip(choices, by_host, strict=True):
        expected = pagetape("report", name, fleet.root, *some, "--json").json
        for rows in (found["rows"], expected["rows"]):
            rows.sort(key=lambda row: repr([row[k] for k in row if not isinstance(row[k], float)]))
        assert found["rows"] == [pytest.approx(row) for row in expected["rows"]], some
        assert found["fleet"] == pytest.approx(expected["fleet"])


def as_before(store: Store, root: Path, **columns: Any) -> Path:
    """A copy of an archive whose index is that of the builds before rows by host: no such rows, no
    column `tapes`, no days that were listed. `columns`: other values of the index."""
    shutil.copytree(store.root or Path(), root)
    for path in root.glob("index/v1/manifest/*/*.json"):
        known = json.loads(path.read_text())
        del known["listed"]
        for part in known["segments"]:
            part["files"] = {k: v for k, v in part["files"].items() if not k.startswith("hosts_")}
        path.write_text(json.dumps(known))
    for path in root.glob("index/v1/data/*/*.hosts_*"):
        path.unlink()
    for path in root.glob("index/v1/data/*/*.tape.parquet"):
        rows = pq.read_table(path).drop_columns(["tapes"])
        for name, value in columns.items():
            rows = archived.with_column(rows, name, pa.array([value] * len(rows)))
        pq.write_table(rows, path)
    return root


def test_an_index_of_before_is_read(tapes: dict[str, Path], tmp_path: Path, pagetape: Run) -> None:
    """It answers as it did, and gets the rows of today at --rebuild. One whose columns had other
    types, as of the first builds, is refused with that step."""
    asked = [["extfrag.by_order"], ["fleet.coverage"], ["loss", "--where", "kernel LIKE '6.12%'"]]

    def answers(root: Path) -> list[Any]:
        return [pagetape("report", r, root, *some, "--json").json["rows"] for r, *some in asked]

    now = compacted(archives.archived(tmp_path / "now", [tapes["a1"], tapes["b1"]]))
    expected = answers(now.root or Path())
    before = as_before(now, tmp_path / "before")
    assert answers(before) == expected
    first = as_before(now, tmp_path / "first", recorded=["kmem:mm_page_alloc"])
    said = pagetape("report", "loss", first)
    assert (said.status, said.err.count("\n")) == (1, 1) and "--rebuild" in said.err
    assert pagetape("compact", first, "--rebuild").status == 0
    assert answers(first) == expected and [*first.glob("index/v1/data/*/*.hosts_*")]


def test_hosts_answer_what_is_about_hosts() -> None:
    known = {"kernel LIKE '6.12%' AND mem_gb > 256": True, "lost > 0": False, "hours < 1": False}
    known |= {"machine = 'a'": True, "identity = 'x'": False, "BEGAN > '2026-11-29'": False}
    assert {one: host_rows.can_choose(one) for one in known} == known
    assert not host_rows.can_answer("SELECT object FROM fleet_tape", {"tape"})
    assert not host_rows.can_answer("SELECT * FROM fleet_zone", {"zone"})


# Reports whose events the recorder of host d had switched on.
MEASURED_BY_D = {"events.by_kind", "loss"}


def test_a_cohort_without_an_event_has_rows_of_its_hosts(fleet: Store, pagetape: Run) -> None:
    """Kernel 6.18.1 has no fallback: its hosts count with the rate 0, host d does not count."""
    options = ["--by", "kernel", "--where", "host IN ('a', 'b', 'c', 'd')", "--json"]
    found = pagetape("report", "extfrag.by_order", fleet.root, *options).json
    new = [row for row in found["rows"] if row["kernel"] == "6.18.1"]
    assert {(r["nr"], r["per_hour"], r["p99"], r["hosts"], r["hours"]) for r in new} == {
        (0, 0, 0, 1, 3)
    }
    (old,) = (r for r in found["rows"] if r["kernel"] == "6.12.5" and r["fallback_order"] == 3)
    assert (old["nr"], old["per_hour"], old["hosts"]) == (6, pytest.approx(6 / (5 / 3), 1e-6), 2)
    assert old["p50"] == pytest.approx((6 / 1.5 + 0) / 2)
    assert "not counted: 1 tape that did not record such events" in found["note"]
    assert found["fleet"] == {
        "tapes": 7,
        "unreadable": 0,
        "replays": 0,
        "hosts": 4,
        "hours": pytest.approx(1 + 0.5 + 1 / 6 + 2 + 1 + 1),
        "bytes": found["fleet"]["bytes"],
        "lost": 0,
    }


def test_times_choose_tapes_by_their_begin(fleet: Store, pagetape: Run) -> None:
    def tapes(*options: str) -> int:
        found = pagetape("report", "loss", fleet.root, *options, "--json").json
        return int(found["fleet"]["tapes"])

    assert tapes("--since", "2026-11-29", "--until", "2026-11-30") == 4
    assert tapes("--since", "2026-11-29T12:00:00+00:00", "--until", "2026-11-30") == 2
    assert tapes("--since", "2026-11-29T14:00:00+02:00", "--until", "2026-11-30") == 2
    assert tapes("--until", "2026-11-01") == 0


def test_an_age_counts_from_now(tmp_path: Path, pagetape: Run) -> None:
    from datetime import UTC, datetime, timedelta

    now = datetime.now(UTC).replace(microsecond=0, tzinfo=None)
    some = [made(tmp_path, "a", (now - timedelta(hours=h)).isoformat(), 60) for h in (1, 30, 60)]
    store = compacted(archives.archived(tmp_path / "fleet", some))
    for age, nr in (("2h", 1), ("2d", 2), ("-2d", 2), ("3d", 3)):
        found = pagetape("report", "loss", store.root, "--since", age, "--json").json
        assert found["fleet"]["tapes"] == nr


def test_other_reports_read_the_tapes_of_the_question(
    fleet: Store, tapes: dict[str, Path], pagetape: Run
) -> None:
    where = ["--where", "host = 'a'"]
    found = pagetape("report", "extfrag.over_time", fleet.root, *where, "--json").json
    alone = pagetape("report", "extfrag.over_time", tapes["a1"], "--json").json
    identity = Path(names.object_name(Tape(tapes["a1"]))).stem
    assert found["rows"] == [{"tape": identity, **row} for row in alone["rows"]] != []
    assert len(found["tapes"]) == 2 and "2 tapes of 1 host" in found["note"]
    many = pagetape("report", "extfrag.over_time", fleet.root, *where, "--most", 1)
    assert many.status == 2 and "2 tapes, the limit is 1" in many.err
    none = pagetape("report", "extfrag.over_time", fleet.root, "--where", "host = 'z'")
    assert none.status == 1 and "no tape of the index meets this" in none.err


def test_replays_and_unreadable_tapes_do_not_count(tmp_path: Path, pagetape: Run) -> None:
    own = made(tmp_path, "a", "2026-11-29T10:00:00", 3600, fallbacks(2))
    with Writer(tmp_path / "run.tape", Tape(own).facts | {"validate": {"kernel": "6.18"}}) as out:
        out.rows("event", Tape(own).rows("event"))
    store = archives.archived(tmp_path / "fleet", [own, archives.packed(tmp_path / "run.tape")])
    store.put_new(f"v1/date=2026-11-29/shard=ab/ab{'0' * 30}.tape", b"PK\3\4 torn")
    store.put_new("v1/date=2026-11-29/shard=ab/README", b"not a tape")
    found = compacted(store)
    report = pagetape("report", "extfrag.by_order", found.root, "--json").json
    assert [(row["nr"], row["hosts"], row["tapes"]) for row in report["rows"]] == [(2, 1, 1)]
    assert "1 tape cannot be read" in report["note"] and "1 replay" in report["note"]
    (day,) = pagetape("report", "fleet.coverage", found.root, "--json").json["rows"]
    assert (day["hosts"], day["tapes"], day["unreadable"], day["hours"]) == (1, 2, 1, 1)
    asked = "SELECT object, problem FROM fleet_tape WHERE problem IS NOT NULL"
    (row,) = pagetape("sql", found.root, asked, "--json").json["rows"]
    assert row["object"].endswith(f"ab{'0' * 30}.tape") and row["problem"]


def test_tapes_beside_the_index_are_counted(tmp_path: Path, pagetape: Run) -> None:
    some = [made(tmp_path, host, "2026-11-29T10:00:00", 60) for host in "abc"]
    store = archives.archived(tmp_path / "fleet", some[:2])
    said = pagetape("report", "loss", store.root)
    assert f"2 tapes are not in the index yet; pagetape compact {store.root}" in said.out
    compacted(store)
    store.put_new(names.object_name(Tape(some[2])), some[2])
    store.delete(names.object_name(Tape(some[0])))
    found = pagetape("info", store.root, "--json").json
    assert (found["not_indexed"], found["not_archived"], found["tapes"]) == (1, 1, 2)
    compacted(store)
    found = pagetape("info", store.root, "--json").json
    assert (found["not_indexed"], found["not_archived"], found["tapes"]) == (0, 0, 2)
    assert found["hosts"] == 2 and found["days"] == ["2026-11-29"]


BAD = {
    "kernel =": "--where 'kernel ='",
    "size > 1": "(columns: tape, ",
    "true) OR (true": "--where 'true) OR (true'",
    "true; DROP VIEW fleet_tape": "--where",
    "(SELECT count(*) FROM read_csv('/etc/passwd')) > 0": "disabled by configuration",
    "(SELECT count(*) FROM read_text('/etc/passwd')) > 0": "disabled by configuration",
    "kernel::INTEGER > 6": "Conversion Error",
}


@pytest.mark.parametrize("where", BAD)
def test_a_bad_condition_is_one_line(where: str, fleet: Store, pagetape: Run) -> None:
    for words in (["report", "loss"], ["report", "pcp.traffic"], ["report", "fleet.thp"]):
        said = pagetape(*words, fleet.root, "--where", where)
        assert (said.status, said.err.count("\n"), BAD[where] in said.err) == (2, 1, True), said.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("report", "loss", "--by", "color"), "--by 'color' is no column of fleet_tape"),
        (("report", "loss", "--since", "soon"), "'soon' is not a span of time"),
        (("report", "loss", "--zone", "DMA"), "--zone: the index has no such parts"),
        (("report", "loss", "--sort", "size"), "no column 'size'"),
        (("info", DATA / "server.tape"), "asked alone"),
        (("report", "loss", "--since", "900000d"), "before the year 1"),
    ],
)
def test_bad_usage_is_one_line(
    words: tuple[Any, ...], said: str, fleet: Store, pagetape: Run
) -> None:
    found = pagetape(*words[:2], fleet.root, *words[2:])
    assert (found.status, found.err.count("\n"), said in found.err) == (2, 1, True), found.err


def test_an_archive_alone_has_cohorts_and_dates(golden: Path, pagetape: Run) -> None:
    for options in (["--by", "kernel"], ["--since", "2026-11-29"]):
        said = pagetape("report", "loss", golden, *options)
        assert (said.status, said.err.count("\n")) == (2, 1)
    said = pagetape("report", "fleet.coverage", golden)
    assert said.status == 2 and "about an archive" in said.err


def test_sql_has_the_index_and_fetches_tapes_only_for_their_tables(
    fleet: Store, pagetape: Run
) -> None:
    sums = "SELECT sum(e.events) AS nr FROM fleet_extfrag AS e JOIN fleet_tape USING (tape)"
    where = ["--where", "host IN ('a', 'b')"]
    assert pagetape("sql", fleet.root, *where, sums, "--json").json["rows"] == [{"nr": 11}]
    asked = "SELECT count(*) AS nr FROM event WHERE kind = 'alloc_extfrag'"
    assert pagetape("sql", fleet.root, *where, asked, "--json").json["rows"] == [{"nr": 11}]
    columns = "SELECT machine, lost, t.events FROM fleet_tape AS t, (SELECT 1)"  # and no tables
    assert pagetape("sql", fleet.root, "--most", 2, columns).status == 0
    few = pagetape("sql", fleet.root, "--most", 2, asked)
    assert few.status == 2 and "the limit is 2" in few.err
    written = pagetape("sql", fleet.root, f"COPY (SELECT 1) TO '{fleet.root}/x'")
    assert written.status == 1 and not (fleet.root or Path()).joinpath("x").exists()
    refused = pagetape("sql", DATA / "server.tape", "--where", "true", "SELECT 1")
    assert refused.status == 2 and "--where: chooses tapes of an archive" in refused.err


def test_trend_and_thp_count_hosts(fleet: Store, pagetape: Run) -> None:
    only = ["--where", "host IN ('a', 'b', 'c', 'd')", "--json"]
    rows = pagetape("report", "fleet.trend", fleet.root, *only).json["rows"]
    claims, steals = (
        {row["date"]: row["total"] for row in rows if row["metric"] == f"fallbacks {kind}"}
        for kind in ("claim", "steal")
    )
    every = {row["date"]: row for row in rows if row["metric"] == "fallbacks"}
    assert (every["2026-11-28"]["total"], every["2026-11-28"]["per_hour"]) == (6, 6)
    day = every["2026-11-29"]  # hosts a (quiet), b and c; d did not record fallbacks
    assert (day["hosts"], day["total"], day["p50"]) == (3, 5, 0)
    assert day["p90"] == pytest.approx(percentile([0, 30, 0], 0.9))
    assert (claims["2026-11-28"] + steals["2026-11-28"], steals["2026-11-29"]) == (6, 0)
    rows = pagetape("report", "fleet.thp", fleet.root, *only).json["rows"]
    new = {row["kernel"]: row for row in rows}["6.18.1"]
    assert (new["requests"], new["served"], new["served_percent"]) == (9, 8, 88.89)
    assert (new["hosts"], new["hosts_asking"], new["p50"]) == (2, 1, 88.89)

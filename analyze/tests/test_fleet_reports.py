# SPDX-License-Identifier: Apache-2.0
"""fleet.regressions, fleet.outliers and the page of an archive, on an archive of made-up hosts."""

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pagetape.archive.store import open_store
from pagetape.asking import archived
from pagetape.fleet import host_statistics
from pagetape.indexing import manifest
from pagetape.indexing.manifest import Manifest, Segment

from .fleet_archive import machine

Run = Callable[..., Any]

BEGIN = datetime(2026, 11, 1)
STEALS = {"kind": "steal", "alloc_migratetype": "MOVABLE", "fallback_migratetype": "UNMOVABLE"}


def index(root: Path, tapes: list[dict[str, Any]]) -> Path:
    """An archive's index of tapes of an hour each, all of one day; `steals` become fallbacks."""
    (root / "v1").mkdir(parents=True)
    store = open_store(root)
    about = {"problem": None, "replayed": False, "hours": 1.0, "counters": False, "lost": 0}
    about |= {"date": "2026-11-01", "began": BEGIN, "bytes": 1, "events": 0}
    rows: dict[str, list[dict[str, Any]]] = {"tape": [], "extfrag": []}
    for nr, tape in enumerate(tapes):
        steals = tape.pop("steals")
        rows["tape"].append(about | {"number": nr, "identity": f"{nr:032x}"} | tape)
        if steals:
            rows["extfrag"].append(STEALS | {"number": nr, "events": steals})
    files = {}
    for name, some in rows.items():
        sink = BytesIO()
        pq.write_table(pa.Table.from_pylist(some, archived.tables()[name]), sink)
        store.put_new(manifest.data_name("2026-11-01", "00000001-0", name), sink.getvalue())
        files[name] = len(sink.getvalue())
    segment = Segment("00000001-0", len(tapes), files)
    manifest.put(store, Manifest("2026-11-01", 1, (segment,)), {})
    return root


def host(name: str, steals: int, kernel: str = "6.12.1", hour: int = 0) -> dict[str, Any]:
    about = {"machine": machine(name), "host": name, "kernel": kernel, "steals": steals}
    return about | {"began": BEGIN + timedelta(hours=hour)}


def made_up() -> dict[str, list[int]]:
    """Fallbacks per hour of twelve hosts of each kernel; the last one has many more."""
    draw = random.Random(4)
    limits = {"6.9.7": (10, 60), "6.12.1": (10, 60), "6.18.2": (200, 900)}
    return {kernel: [draw.randrange(*some) for _ in range(12)] for kernel, some in limits.items()}


RATES = made_up()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of these hosts, a tape each."""
    tapes = [
        host(f"{kernel}-{i}", steals, kernel)
        for kernel, some in RATES.items()
        for i, steals in enumerate(some)
    ]
    return index(tmp_path_factory.mktemp("reports") / "archive", tapes)


def rows(said: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = said.json["rows"]
    return found


def test_cohorts_are_compared_with_the_first_version(root: Path, pagetape: Run) -> None:
    found = rows(pagetape("report", "fleet.regressions", root, "--json"))
    assert {row["metric"] for row in found} == {"fallbacks", "fallbacks steal"}
    assert {row["base"] for row in found} == {"6.9.7"}  # before 6.12 and 6.18
    verdicts = {(row["cohort"], row["metric"]): row["verdict"] for row in found}
    assert verdicts["6.18.2", "fallbacks steal"] == "worse"
    assert verdicts["6.12.1", "fallbacks steal"] == "no difference shown"
    assert all(
        (row["hosts_base"], row["hosts_cohort"], row["paired"]) == (12, 12, False) for row in found
    )


def test_the_rows_are_those_of_the_statistics(root: Path, pagetape: Run) -> None:
    rates = {kernel: [float(rate) for rate in some] for kernel, some in RATES.items()}
    base = rates["6.12.1"]
    found = rows(pagetape("report", "fleet.regressions", root, "--base", "6.12.1", "--json"))
    p = [host_statistics.rank_test(base, rates[row["cohort"]]) for row in found]
    assert [row["p"] for row in found] == pytest.approx(host_statistics.holm(p))
    for row in found:
        ratio = host_statistics.ratio_interval(base, rates[row["cohort"]], 1.0)
        assert (row["ratio"], row["low"], row["high"]) == pytest.approx(ratio, abs=1e-4)


def test_hosts_before_and_after_a_change_are_compared_with_themselves(
    tmp_path: Path, pagetape: Run
) -> None:
    tapes = [host(f"h{i}", 3 * 4**i, hour=0) for i in range(8)]
    tapes += [host(f"h{i}", 4 * 4**i, hour=12) for i in range(8)]
    root = index(tmp_path / "archive", tapes)
    asked = ("report", "fleet.regressions", root, "--change", "2026-11-01T06:00", "--json")
    found = rows(pagetape(*asked))
    assert {row["metric"] for row in found} == {"fallbacks", "fallbacks steal"}
    for row in found:
        assert (row["base"], row["cohort"], row["verdict"]) == ("before", "after", "worse")
        assert (row["paired"], row["hosts_base"], row["share_higher"]) == (True, 8, 100)
        assert row["p"] == 2 * 2 / 2**8


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--base", "6.1"), "no cohort (there are: 6.9.7, 6.12.1, 6.18.2)"),
        (("--change", "now"), "is not a time"),
        (("--change", "2026-11-01", "--by", "kernel"), "leave out --by"),
        (("--by", "nosuch"), "nosuch"),
    ],
)
def test_cohorts_that_there_are_not(
    words: tuple[str, ...], why: str, root: Path, pagetape: Run
) -> None:
    said = pagetape("report", "fleet.regressions", root, *words)
    assert (said.status, said.err.count("\n")) == (2, 1) and why in said.err


def test_one_cohort_has_nothing_to_compare(root: Path, pagetape: Run) -> None:
    said = pagetape("report", "fleet.regressions", root, "--where", "kernel = '6.9.7'")
    assert said.status == 0 and "one cohort: there is nothing to compare" in said.out


def test_a_host_far_above_the_others_stands_out(tmp_path: Path, pagetape: Run) -> None:
    tapes = [host(f"h{i}", 20 + i) for i in range(20)]
    tapes += [host("loud", 900), host("short", 900) | {"hours": 0.5}, host("quiet", 0)]
    found = rows(pagetape("report", "fleet.outliers", index(tmp_path / "a", tapes), "--json"))
    assert {row["host"] for row in found} == {"loud"}
    (row,) = (row for row in found if row["metric"] == "fallbacks steal")
    assert (row["per_hour"], row["hosts"], row["p50"]) == (900, 22, 29.5)
    assert row["worst_date"] == "2026-11-01" and row["fence"] < 900
    every = pagetape("report", "fleet.outliers", tmp_path / "a", "--min-minutes", 30, "--json")
    assert {row["host"] for row in rows(every)} == {"loud", "short"}


def test_hosts_that_are_alike_do_not_stand_out(tmp_path: Path, pagetape: Run) -> None:
    draw = random.Random(2)
    tapes = [host(f"h{i}", round(draw.lognormvariate(3, 0.8))) for i in range(60)]
    assert rows(pagetape("report", "fleet.outliers", index(tmp_path / "a", tapes), "--json")) == []
    few = index(tmp_path / "few", [host(f"h{i}", 10**i) for i in range(7)])
    assert rows(pagetape("report", "fleet.outliers", few, "--json")) == []


def test_the_page_has_cohorts_regressions_and_worst_hosts(
    root: Path, tmp_path: Path, pagetape: Run
) -> None:
    page = tmp_path / "fleet.html"
    said = pagetape("html", root, "-o", page)
    assert said.status == 0 and said.out.startswith(f"{page}: ")
    text = page.read_text()
    for words in (
        "Coverage",
        "6.12.1 (12)",
        "Worst hosts",
        "6.18.2 is worse than 6.9.7 in fallbacks",
    ):
        assert words in text
    assert "http" not in text.replace("http-equiv", "")
    assert pagetape("html", root, "--where", "kernel = '6.9.7'", "-o", page).status == 0
    assert "there is nothing to compare" in page.read_text()


def test_a_page_of_tapes_takes_no_choice(small: Path, tmp_path: Path, pagetape: Run) -> None:
    said = pagetape("html", small, "--by", "kernel", "-o", tmp_path / "f.html")
    assert said.status == 2 and "--by: chooses tapes of an archive" in said.err

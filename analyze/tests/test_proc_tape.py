# SPDX-License-Identifier: Apache-2.0
"""Tapes of /proc over time: imported or recorded, asked, compared; they say what they lack."""

import json
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pagetape.cli import pagetape
from pagetape.recording import proc_tape
from pagetape.sampler import Reading
from pagetape.schemas.tape import Tape, TapeError

PROC = Path(__file__).parents[2] / "collector/tests/data/proc-6.1"
SHARED = Path(__file__).parents[3] / "shared/data/public"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="needs the shared data")
RECORD = (Path(sys.executable).with_name("pagetape"), "record", "--events", "proc")
FILES = ("zoneinfo", "buddyinfo", "pagetypeinfo", "vmstat")


def run(*args: object) -> str:
    found = CliRunner().invoke(pagetape, [str(arg) for arg in args])
    assert found.exit_code == 0, found.output
    return found.output


def answer(*args: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*args, "--json"))
    return found


def later(text: str, pages: int) -> str:
    """vmstat after so many further allocations."""
    rows = dict(line.split() for line in text.splitlines())
    for name in ("pgalloc_normal", "pgalloc_dma32", "pgfree"):
        rows[name] = str(int(rows[name]) + pages)
    return "".join(f"{name} {value}\n" for name, value in rows.items())


def log(nr: int = 4, *, names: tuple[str, ...] = FILES, seconds: int = 60) -> str:
    """A log of `date; cat ...`: 1,000 pages more from one moment to the next."""
    found = ""
    for n in range(nr):
        found += f"2026-11-21 06:{15 + n * seconds // 60}:{n * seconds % 60:02} UTC\n"
        for name in names:
            text = (PROC / f"{name}.before").read_text()
            found += later(text, 1000 * n) if name == "vmstat" else text
    return found


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    (tmp_path / "cron.log").write_text(log())
    run("import", tmp_path / "cron.log", "-o", tmp_path / "a.tape", "--kernel-release", "6.1.0")
    return tmp_path / "a.tape"


def test_each_moment_is_a_snapshot_and_a_sample(tape: Path) -> None:
    info = answer("info", tape)
    assert info["duration_s"] == 180
    assert (info["kernel"], info["cpus"], info["nodes"], info["events"]) == ("6.1.0", 4, 2, {})
    assert [row["how"] for row in info["snapshots"]] == ["proc"] * 4
    assert info["samples"] == 4
    assert info["facts"]["recorded_at"] == "2026-11-21T06:15:00+00:00"


def test_rates_and_indices_over_time(tape: Path) -> None:
    rates = answer("report", "samples.rates", tape)
    assert [row["at_s"] for row in rates["rows"]] == [60, 120, 180]
    assert [row["over_s"] for row in rates["rows"]] == [60] * 3
    assert [row["allocated"] for row in rates["rows"]] == [pytest.approx(2000 / 60, abs=0.1)] * 3
    over_time = answer("report", "frag.over_time", tape)
    assert {row["at_s"] for row in over_time["rows"]} == {0, 60, 120, 180}
    types = answer("report", "frag.by_migratetype", tape)
    assert {row["at_s"] for row in types["rows"]} == {0, 60, 120, 180}
    for found in (rates, over_time, types):
        assert found["absent"][0].startswith("/proc over time, no events")


def test_a_part_of_the_time(tape: Path) -> None:
    rows = answer("report", "frag.over_time", tape, "--since", "60s", "--until", "121s")["rows"]
    assert {row["at_s"] for row in rows} == {60, 120}


def test_a_report_of_events_says_what_it_needs(tape: Path) -> None:
    found = CliRunner().invoke(pagetape, ["report", "extfrag.by_order", str(tape)])
    assert found.exit_code == 1
    assert "needs page events: pagetape record" in found.output


@pytest.mark.parametrize("command", ["replay", "validate"])
def test_without_events_nothing_is_replayed(tape: Path, command: str) -> None:
    found = CliRunner().invoke(pagetape, [command, str(tape)])
    assert isinstance(found.exception, TapeError)
    assert "has no events of the free lists; needs page events: " in str(found.exception)


def test_diagnose_page_and_comparison(tape: Path, tmp_path: Path) -> None:
    found = answer("diagnose", tape)
    assert found["covers"] == "snapshots"
    assert any(limit["what"].startswith("/proc over time") for limit in found["limits"])
    assert all(finding["severity"] != "unknown" for finding in found["findings"])
    run("html", tape, "-o", tmp_path / "page.html")
    assert "/proc over time" in (tmp_path / "page.html").read_text()
    (tmp_path / "other.log").write_text(log(names=("buddyinfo", "zoneinfo")))
    run("import", tmp_path / "other.log", "-o", tmp_path / "other.tape")
    metrics = answer("compare", tape, tmp_path / "other.tape")["metrics"]
    (free,) = (m for m in metrics if m["metric"] == "free pages at the end")
    assert max(free["values"].values()) - min(free["values"].values()) < 100
    assert all("at the end" in m["metric"] for m in metrics)
    rows = answer("report", "metrics", tape)["rows"]
    assert {row["metric"] for row in rows} >= {m["metric"] for m in metrics}
    assert all("at the end" in row["metric"] for row in rows)


def test_readings_below_a_watermark_are_a_finding(tmp_path: Path) -> None:
    text = (PROC / "zoneinfo.before").read_text()
    found = re.search(r"pages free +(\d+)\n(.*\n)?        min +(\d+)", text)
    assert found
    low = text.replace(f"pages free     {found[1]}", "pages free     7", 1)
    both = f"2026-11-21 06:15:00 UTC\n{text}\n2026-11-21 06:16:00 UTC\n{low}"
    (tmp_path / "log").write_text(both)
    run("import", tmp_path / "log", "-o", tmp_path / "a.tape")
    findings = {f["id"]: f for f in answer("diagnose", tmp_path / "a.tape")["findings"]}
    assert findings["watermarks"]["severity"] == "low"
    assert findings["watermarks"]["evidence"]["zones"][0]["below_min"] == 1
    assert "At 1 of 2 moments zone DMA of node 0" in findings["watermarks"]["text"]


def test_what_was_left_out_is_a_fact_of_the_tape(tmp_path: Path) -> None:
    cut = "".join((PROC / "zoneinfo.before").read_text().splitlines(keepends=True)[:40])
    (tmp_path / "log").write_text(log() + "2026-11-21 06:30:00 UTC\n" + cut)
    said = run("import", tmp_path / "log", "-o", tmp_path / "a.tape")
    (line,) = [one for one in Tape(tmp_path / "a.tape").facts["limits"] if "damaged" in one]
    assert "zoneinfo, line" in line
    assert line in said
    assert line in run("report", "frag.over_time", tmp_path / "a.tape")
    assert line in answer("report", "samples.rates", tmp_path / "a.tape")["absent"]
    assert line in answer("info", tmp_path / "a.tape")["absent"]


def test_a_log_of_buddyinfo_alone(tmp_path: Path) -> None:
    text = (PROC / "buddyinfo.before").read_text()
    (tmp_path / "log").write_text(text * 3)
    run("import", tmp_path / "log", "-o", tmp_path / "a.tape", "--interval", "1s")
    found = answer("report", "frag.over_time", tmp_path / "a.tape")
    assert {row["at_s"] for row in found["rows"]} == {0, 1, 2}
    assert any("no vmstat: rates" in line for line in found["absent"])
    run("import", tmp_path / "log", "-o", tmp_path / "b.tape")
    assert len(answer("report", "frag.indices", tmp_path / "b.tape")["rows"]) == len(
        answer("report", "frag.indices", tmp_path / "a.tape")["rows"]
    )


def test_a_private_import(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("Linux web1 5.4.0-42-generic #1 SMP x86_64 GNU/Linux\n" + log())
    run("import", tmp_path / "log", "-o", tmp_path / "a.tape", "--private", "drop")
    assert "web1" not in json.dumps(Tape(tmp_path / "a.tape").facts)
    assert Tape(tmp_path / "a.tape").facts["kernel"] == "5.4.0-42-generic"


def test_neither_copies_nor_a_tape(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    found = CliRunner().invoke(
        pagetape, ["import", str(tmp_path / "empty"), "-o", str(tmp_path / "a.tape")]
    )
    assert isinstance(found.exception, OSError)
    assert "no copies of /proc" in str(found.exception)
    assert not (tmp_path / "a.tape").exists()


# The machine itself


@pytest.mark.skipif(not Path("/proc/buddyinfo").exists(), reason="needs /proc/buddyinfo")
def test_a_recording_of_this_machine(tmp_path: Path) -> None:
    path = tmp_path / "live.tape"
    said = subprocess.run(
        [*RECORD, "-o", path, "--interval", "0.2s", "--", "sleep", "1"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert "moments of /proc" in said.stderr
    info = answer("info", path)
    assert info["finished"]
    assert len(info["snapshots"]) >= info["samples"] >= 3  # a sample has what changed
    assert info["facts"]["kernel"] == os.uname().release
    assert len(answer("report", "samples.rates", path)["rows"]) == info["samples"] - 1


def test_a_reading_of_sysctls_alone_is_no_snapshot() -> None:
    rows: dict[str, list[dict[str, Any]]] = {}

    class Sink:
        def rows(self, name: str, found: list[dict[str, Any]]) -> None:
            rows.setdefault(name, []).extend(found)

    moments = proc_tape.Moments(Sink())
    moments.add(5, {}, [Reading(5, {"parameter": [{"ts": 5, "name": "vm.swappiness"}]})])
    moments.flush()
    assert rows == {"parameter": [{"ts": 5, "name": "vm.swappiness", "at": 0}]}


@pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/proc/buddyinfo").exists(), reason="needs root, to drop it"
)
def test_a_recording_without_rights(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    for above in tmp_path.parents:
        if not above.stat().st_mode & 0o001:
            pytest.skip(f"{above} is closed to other users")
    path = tmp_path / "live.tape"
    said = subprocess.run(
        [*RECORD, "-o", path, "--duration", "0.5s"],
        check=False,
        capture_output=True,
        text=True,
        user=65534,
        group=65534,
        extra_groups=[],
    )
    if "Permission denied" in said.stderr:
        pytest.skip("the program is closed to other users")
    assert said.returncode == 0, said.stderr
    if Path("/proc/pagetypeinfo").stat().st_mode & 0o004 == 0:
        assert said.stderr.count("only root may read /proc/pagetypeinfo") == 1
        assert any("pagetypeinfo" in line for line in Tape(path).facts["limits"])


def test_tapes_of_a_series_share_a_moment_and_the_oldest_ones_go(tmp_path: Path) -> None:
    """Each tape stands alone: its first moment has every counter, its last one begins the next."""
    series = tmp_path / "series"
    options = ["--interval", "0.2s", "--rotate", "1s", "--duration", "3.5s"]
    said = subprocess.run(
        [*RECORD, "-o", series, *options], check=False, capture_output=True, text=True
    )
    assert said.returncode == 0, said.stderr
    tapes = [Tape(path) for path in series.glob("*.tape")]
    assert len(tapes) >= 3
    tapes.sort(key=lambda tape: int(tape.rows("zone")[0]["ts"]))  # two may be of one second
    assert all(tape.complete for tape in tapes)
    for before, after in pairwise(tapes):
        last, first = (
            {(row["node"], row["zone"]): row for row in tape.rows("zone") if row["snapshot"] == nr}
            for tape, nr in (
                (before, max(before.table("zone")["snapshot"].to_pylist())),
                (after, 0),
            )
        )
        assert last.keys() == first.keys()
        for key, row in first.items():
            assert {**last[key], "snapshot": 0} == row
    names = [set(tape.table("sample")["name"].to_pylist()) for tape in tapes]
    assert all(one == names[0] and len(one) > 20 for one in names)
    options[-1] = "1.5s"
    said = subprocess.run(
        [*RECORD, "-o", series, *options, "--keep", "1kB"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert said.returncode == 0, said.stderr
    assert not any(tape.path.exists() for tape in tapes)
    assert "--keep" in said.stderr and len(list(series.glob("*.tape"))) == 1


@pytest.mark.parametrize(
    "options", [["--snapshot", "exact"], ["--defer"], ["--ring", "5s"], ["--interval", "0"]]
)
def test_options_that_need_events(tmp_path: Path, options: list[str]) -> None:
    found = CliRunner().invoke(
        pagetape, ["record", "-o", str(tmp_path / "a.tape"), "--events", "proc", *options]
    )
    assert found.exit_code == 2
    assert "--events proc" in found.output


# Copies from public reports


def of_public(name: str, tmp_path: Path) -> Path:
    run("import", SHARED / name, "-o", tmp_path / "a.tape")
    return tmp_path / "a.tape"


@needs_shared
def test_eight_nodes_have_the_index_of_their_kernel(tmp_path: Path) -> None:
    tape = of_public("eight-nodes", tmp_path)
    rows = answer("report", "frag.debugfs", tape)["rows"]
    lines = [row["line"].split() for row in rows if row["file"] == "unusable_index"]
    kernel = (SHARED / "eight-nodes/kernel-unusable_index.txt").read_text()
    assert lines == [line.split() for line in kernel.splitlines()]
    assert len(lines) == 10


@needs_shared
@pytest.mark.parametrize(
    ("name", "migratetype", "pages", "capped"),
    [
        ("wrapped-pagetypeinfo", "MOVABLE", 6_323_168, False),
        ("capped-pagetypeinfo", "MOVABLE", 9_930_432, True),
        ("csky-cma", "CMA", 60_564, False),
    ],
)
def test_folded_and_capped_lists_and_those_of_cma(
    tmp_path: Path, name: str, migratetype: str, pages: int, capped: bool
) -> None:
    rows = answer("report", "frag.by_migratetype", of_public(name, tmp_path))["rows"]
    (row,) = (
        row
        for row in rows
        if (row["snapshot"], row["node"], row["zone"]) == (0, 0, "NORMAL")
        and row["migratetype"] == migratetype
    )
    assert (row["free_pages"], row["capped"]) == (pages, capped)

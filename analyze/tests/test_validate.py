# SPDX-License-Identifier: Apache-2.0
"""pagetape validate, from the command line; the engine's tests cover its results."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pagetape.schemas.tape import Tape, Writer

Run = Callable[..., Any]

DEMO = Path(__file__).parent / "data/pressure.tape"

KEYS = [
    "allocs",
    "alloc_exact",
    "zone_locked",
    "zone_locked_exact",
    "refills",
    "refill_size_exact",
    "drained",
    "drained_exact",
    "extfrag",
    "extfrag_exact",
    "unknown",
    "inferred_untraced",
    "first_divergence",
    "end_state",
    "lost",
    "kernel",
]


def altered(source: Path, path: Path, at: int, **columns: Any) -> Path:
    """The same tape, but one event is another."""
    tape = Tape(source)
    with Writer(path, {k: v for k, v in tape.facts.items() if k != "replay"}) as out:
        for name in tape.tables - {"counter", "anomaly"}:
            rows = tape.table(name).to_pylist()
            if name == "event":
                rows[at] |= columns
            out.rows(name, rows)
    return path


def test_the_model_predicts_its_own_replay(played: Path, pagetape: Run) -> None:
    found = pagetape("validate", played, "--json").json
    assert set(KEYS) <= set(found)
    assert found["allocs"] == found["alloc_exact"] == 6000
    assert found["zone_locked"] > 3000
    assert found["zone_locked_exact"] >= found["zone_locked"] - found["unknown"]
    assert found["unknown"] < 10
    assert found["refills"] == found["refill_size_exact"] > 0
    assert found["first_divergence"] is None
    said = pagetape("validate", played)
    assert "no divergence" in said.out and "lost: 0 events; anomalies: 0" in said.out


def _last_mix(tape: Path) -> list[dict[str, Any]]:
    rows = Tape(tape).rows("block_mix")
    end = max(row["ts"] for row in rows)
    return [{k: v for k, v in row.items() if k != "ts"} for row in rows if row["ts"] == end]


def test_the_pageblocks_at_the_end_are_those_of_the_replay(
    played: Path, tmp_path: Path, pagetape: Run
) -> None:
    out = tmp_path / "found.tape"
    assert pagetape("validate", played, "-o", out).status == 0
    assert _last_mix(out) == _last_mix(played)
    assert all(row["unmovable_pages"] and row["movable_pages"] for row in _last_mix(out))


def test_a_recording_is_compared_by_its_mixed_pageblocks(tmp_path: Path, pagetape: Run) -> None:
    out = tmp_path / "out.tape"
    assert pagetape("replay", DEMO, "-o", out).status == 0
    found = pagetape("compare", DEMO, out, "--json").json
    (mixed,) = [m for m in found["metrics"] if m["metric"] == "mixed pageblocks at the end"]
    recorded, played = mixed["values"].values()
    assert recorded > 0 and played > 0


def test_unknown_decisions_are_counted_by_kind(played: Path, tmp_path: Path, pagetape: Run) -> None:
    """Without an exact snapshot, the model does not know the order of its lists at first."""
    source = Tape(played)
    tape = tmp_path / "proc.tape"
    with Writer(tape, {k: v for k, v in source.facts.items() if k != "replay"}) as out:
        for name in source.tables - {"counter", "anomaly"}:
            rows = source.table(name).to_pylist()
            if name == "snapshot":
                rows = [row | {"how": "proc"} for row in rows]
            out.rows(name, rows)
    found = pagetape("validate", tape, "--json").json
    unknown = {name: nr for name, nr in found.items() if name.endswith("_unknown")}
    assert found["unknown"] == sum(unknown.values()) > 0
    assert unknown["zone_locked_unknown"] > 0
    line = next(
        line
        for line in pagetape("validate", tape).out.splitlines()
        if line.startswith("pages taken under the zone lock")
    )
    counts = (found["zone_locked"], found["zone_locked_exact"], found["zone_locked_unknown"])
    assert line.split()[-4:-1] == [str(nr) for nr in counts]


def test_explain_describes_the_first_divergence(
    played: Path, tmp_path: Path, pagetape: Run
) -> None:
    events = Tape(played).table("event").to_pylist()
    at = [i for i, row in enumerate(events) if row["kind"] == "alloc_zone_locked"][2000]
    wrong = altered(played, tmp_path / "wrong.tape", at, migratetype="RECLAIMABLE")
    first = pagetape("validate", wrong, "--json").json["first_divergence"]
    assert first["decision"] == "refill_size"  # that of the refill the event is part of
    assert at - 63 < first["at"] <= at
    brief, whole = pagetape("validate", wrong).out, pagetape("validate", wrong, "--explain").out
    line = next(line for line in brief.splitlines() if line.startswith("first divergence"))
    assert f"event {first['at']:,} " in line and f"got {first['got']} " in line
    assert line in whole and len(whole.splitlines()) > len(brief.splitlines()) + 5


def test_what_was_found_can_be_asked(played: Path, tmp_path: Path, pagetape: Run) -> None:
    out = tmp_path / "found.tape"
    assert pagetape("validate", played, "-o", out).status == 0
    rows = pagetape("report", "model.exactness", out, "--json").json["rows"]
    assert {row["percent"] for row in rows if row["nr"] > row["unknown"]} == {100.0}
    assert sum(row["nr"] for row in rows if row["decision"] == "alloc") == 6000
    assert pagetape("report", "model.misses", out, "--json").json["rows"] == []
    said = pagetape("validate", played, "-o", out)
    assert said.status == 1 and "--force" in said.err


@pytest.mark.parametrize(
    ("args", "status", "words"),
    [
        (("--kernel", "nosuch"), 2, "nosuch"),
        (("--kernel",), 2, "--kernel"),
        (("--policy", "nofragment"), 2, "--policy"),
    ],
)
def test_bad_use_is_one_line(
    args: tuple[str, ...], status: int, words: str, small: Path, pagetape: Run
) -> None:
    said = pagetape("validate", small, *args)
    assert (said.status, said.out, said.err.count("\n")) == (status, "", 1)
    assert words in said.err


def test_a_tape_without_a_machine_says_what_is_missing(
    empty: Path, tmp_path: Path, pagetape: Run
) -> None:
    assert "--kernel" in pagetape("validate", empty).err
    said = pagetape("validate", empty, "--kernel", "6.18")
    assert said.status == 1 and "--proc" in said.err
    said = pagetape("validate", tmp_path / "none.tape")
    assert said.status == 1 and "no such tape" in said.err


def test_the_accuracy_of_any_recording_is_measured(played: Path, tmp_path: Path) -> None:
    script = Path(__file__).parents[1] / "lab/fidelity.py"
    argv = [sys.executable, script, "--only", "none", "--work", tmp_path / "work", played]
    found = json.loads(subprocess.run(argv, check=True, capture_output=True).stdout)
    assert {"recordings", "ahead", "free_runs"} <= found.keys()
    (row,) = found["ahead"]["rows"]
    assert row[:2] == ["played", [100.0, 6000]]


def test_a_guest_needs_a_kernel_that_exists(tmp_path: Path) -> None:
    script = Path(__file__).parents[1] / "lab/guest.py"
    help_text = subprocess.run([sys.executable, script, "--help"], check=True, capture_output=True)
    assert b"--kernel" in help_text.stdout
    argv = [sys.executable, script, "-o", tmp_path / "t.tape", "--kernel", tmp_path]
    said = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert (said.returncode, said.stderr.count("\n")) == (1, 1)
    assert "no kernel" in said.stderr

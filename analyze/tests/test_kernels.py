# SPDX-License-Identifier: Apache-2.0
"""--kernel auto: the release's row, unless the recording clearly follows another."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape, Writer
from pagetape.tapes import kernel_rows

from .conftest import GOLDEN, rewritten

Run = Callable[..., Any]

FIRST, BLOCKS = 1 << 16, 64


@pytest.fixture(autouse=True)
def no_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """The row of a run does not depend on them."""
    monkeypatch.setenv("PAGETAPE_ENSEMBLE", "0")


@pytest.fixture
def requests(tmp_path: Path) -> Path:
    """UNMOVABLE requests to MOVABLE pageblocks with small free chunks: each is a fallback.

    6.12.19 splits the largest chunk, 6.12.117 and later take the smallest.
    """
    facts = json.loads((GOLDEN / "tape" / "facts.json").read_text())
    place = {"snapshot": 0, "ts": 0, "node": 0, "zone": "NORMAL"}
    pages = BLOCKS << 9
    zone: dict[str, Any] = {c.name: 0 for c in TABLES["zone"].columns if not c.null}
    zone |= place | {"start_pfn": FIRST, "free": 72 * BLOCKS}
    zone |= dict.fromkeys(("spanned", "present", "managed"), pages)
    lists = {"count": 0, "high": 64, "batch": 16, "high_min": 64, "high_max": 128}
    starts = range(FIRST, FIRST + pages, 512)
    event = {"cpu": 0, "pid": 1, "flags": 0, "kind": "alloc", "page_order": 0, "gfp_flags": 0}
    event |= {"migratetype": "UNMOVABLE"}
    path = tmp_path / "requests.tape"
    with Writer(path, facts) as tape:
        tape.rows(
            "event",
            [event | {"ts": 1000 * n, "pfn": starts[n // 32] + n % 32} for n in range(1500)],
        )
        tape.rows("zone", [zone])
        tape.rows("pcp", [place | lists | {"cpu": cpu} for cpu in (0, 1)])
        tape.rows(
            "free_block",
            [
                place | {"migratetype": "MOVABLE", "page_order": order, "pfn": start + at}
                for order, at in ((3, 256), (6, 0))
                for start in starts
            ],
        )
        tape.rows(
            "pageblock",
            [place | {"migratetype": "MOVABLE", "pfn": pfn, "guessed": False} for pfn in starts],
        )
    return path


@pytest.fixture
def recorded(requests: Path, tmp_path: Path, pagetape: Run) -> Callable[..., Path]:
    """A tape of a run under the rules of `row`, with the kernel release `release`."""

    def make(kernel: str, release: str | None) -> Path:
        played = tmp_path / "played.tape"
        assert pagetape("replay", requests, "--kernel", kernel, "-o", played).status == 0
        tape = Tape(played)
        facts = {name: fact for name, fact in tape.facts.items() if name != "replay"}
        path = tmp_path / f"{kernel}-{release}.tape"
        with Writer(path, facts | {"kernel": release, "version": ""}) as out:
            for name in tape.tables - {"counter", "anomaly"}:
                for batch in tape.batches(name):
                    out.write(name, batch)
        return path

    return make


@pytest.mark.parametrize("row", ["6.12.19", "6.12.117"])
def test_a_tape_that_does_as_its_release_goes_by_it(
    recorded: Callable[..., Path], pagetape: Run, row: str
) -> None:
    said = pagetape("validate", recorded(row, row), "--json")
    assert (said.json["kernel"], said.json["kernel_because"]) == (row, f"release {row}")
    assert said.json["extfrag_exact"] == said.json["extfrag"] > 1000
    assert said.err == ""


@pytest.mark.parametrize(("row", "release"), [("6.12.117", "6.12.19"), ("6.12.19", "6.12.117")])
def test_observation_overrules_a_release(
    recorded: Callable[..., Path], pagetape: Run, row: str, release: str
) -> None:
    tape = recorded(row, release)
    for command in ("validate", "replay"):
        said = pagetape(command, tape, "--json")
        assert said.json["kernel"] == row
        assert said.json["kernel_because"].startswith("observed: ")
        assert said.err.count("\n") == 1
        rules = f"played under the rules of {kernel_rows.named(row)}"
        assert f"{rules}, not of its release {release}" in said.err


def test_a_kernel_that_is_given_is_not_overruled(
    recorded: Callable[..., Path], pagetape: Run
) -> None:
    tape = recorded("6.12.117", "6.12.19")
    said = pagetape("validate", tape, "--kernel", "6.12.19", "--json")
    assert (said.json["kernel"], said.json["kernel_because"]) == ("6.12.19", "given")
    assert said.err == ""


def test_without_a_release_the_row_that_fits_is_taken(
    recorded: Callable[..., Path], pagetape: Run
) -> None:
    said = pagetape("validate", recorded("6.12.19", None), "--json")
    assert said.json["kernel"] in ("6.12.19", "6.14")  # one allocator
    assert "the kernel release is unknown" in said.err


@pytest.mark.parametrize(
    "facts",
    [
        {"version": "Linux version 7.3.4 (x) #1 SMP PREEMPT_RT Debian 7.3.4-1"},
        {"version": "Linux version 4.19.0 (x) #1 SMP PREEMPT RT Debian 4.19.67-2"},
        {"version": "Linux", "config": {"PREEMPT_RT": "y"}},
    ],
)
def test_preempt_rt_is_played_by_no_rules_of_its_own(
    requests: Path, pagetape: Run, tmp_path: Path, facts: dict[str, Any]
) -> None:
    path = rewritten(requests, tmp_path / "rt.tape", {"kernel": "6.12.19"} | facts)
    for command in ("validate", "replay"):
        said = pagetape(command, path)
        assert said.status == 1 and said.err.count("\n") == 1
        assert f"{path}: the kernel has PREEMPT_RT" in said.err and "--kernel" in said.err
        assert pagetape(command, path, "--kernel", "6.12.19").status == 0
    assert pagetape("info", path).status == 0
    assert pagetape("report", "extfrag.by_migratetype", path).status == 0


def test_a_what_if_says_why_its_kernel(
    recorded: Callable[..., Path], pagetape: Run, tmp_path: Path
) -> None:
    tape = recorded("6.12.117", "6.12.19")
    out = tmp_path / "whatif.tape"
    assert pagetape("replay", tape, "--policy", "nofragment:mode=always", "-o", out).status == 0
    run = pagetape("compare", tape, out, "--json").json["tapes"][1]["run"]
    assert run["kernel"] == "6.12.117"
    assert run["kernel_because"].startswith("observed: ")

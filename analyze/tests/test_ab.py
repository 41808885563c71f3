# SPDX-License-Identifier: Apache-2.0
"""pagetape ab: the plan, the runs, ratios and verdicts, and the file ab.json."""

import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import livetest
import pytest
import validation

from pagetape.ab import live
from pagetape.ab import predict as predict_module
from pagetape.ab import result as result_module
from pagetape.ab import switch as switch_module
from pagetape.ab.plan import Plan, RunOf, parse_set
from pagetape.ab.result import Result, cells, text
from pagetape.ab.switch import SWITCHES, Host, find
from pagetape.ab.verdict import AGREES, NOISE, NONE, WRONG, Recorded, live_ratio, sign, verdict
from pagetape.asking import interval
from pagetape.asking.interval import Ratio
from pagetape.recording.workload import Workload
from pagetape.schemas.tape import Tape, TapeError, Writer

Run = Callable[..., Any]

PAGETAPE = [sys.executable, "-c", "from pagetape.cli import main; main()"]
NO_TASK = {"cpu": 0, "pid": 7, "flags": 0, "page_order": 0}
TOUCH = [sys.executable, "-c", "x = bytearray(64 << 20)"]


# ---- verdicts


@pytest.mark.parametrize(
    ("old", "new", "predicted", "expected"),
    [
        # The live runs show a difference of factor 2.
        ([95, 95], [195, 195], (2.1, 1.8, 2.4), "agrees"),
        ([95, 95], [195, 195], (2.6, 2.2, 3), "wrong"),  # the right sign, too far
        ([95, 95], [195, 195], (0.9, 0.5, 2.5), "wrong"),  # within, but the other sign
        ([95, 95], [195, 195], (1, 0.4, 2.5), "wrong"),  # no difference predicted
        ([95, 95], [195, 195], (1.1, 0.4, 2.5), "within noise"),  # none is shown
        ([95, 95], [195, 195], (1.6, 1.1, 2.5), "agrees"),
        ([100_000, 90_000], [0, 0], (1e-4, 1e-5, 1e-3), "agrees"),  # to none
        # They show a factor of 1.5 to 3: the median is outside, but not the spread.
        ([95, 145], [215, 295], (2.6, 2.5, 3), "within noise"),
        ([95, 145], [215, 295], (3.5, 3.2, 4), "wrong"),
        ([95, 145], [215, 295], (0.9, 0.8, 1.6), "wrong"),
        # The live runs show none.
        ([95, 195], [95, 195], (1, 1, 1), "no difference shown"),
        ([95, 195], [95, 205], (0.9, 0.4, 1.01), "no difference shown"),  # whatever the sign
        ([95, 195], [95, 195], (1.9, 1.5, 2.5), "within noise"),
        ([95, 195], [95, 195], (3, 2.5, 4), "wrong"),  # more than equal runs differ
        ([95, 96], [95, 96], (0.5, 0.4, 0.6), "wrong"),
        ([0, 0], [0, 0], (1, 0.9, 1.1), "no difference shown"),
    ],
)
def test_verdicts(
    old: list[float], new: list[float], predicted: tuple[float, float, float], expected: str
) -> None:
    assert verdict(live_ratio(old, new), Ratio(*predicted)) == expected


def test_the_live_spread_is_that_of_the_runs_farthest_apart() -> None:
    found = live_ratio([95, 145, 195], [395, 295, 495])
    assert (found.value, found.low, found.high) == (400 / 150, 300 / 200, 500 / 100)
    assert found.shown
    assert not live_ratio([95, 195], [195, 295]).shown


def test_signs() -> None:
    assert [sign(x) for x in (0.5, 1, 1 + 1e-12, 2)] == [-1, 0, 0, 1]


def test_the_ratio_of_members_is_wider_by_the_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interval, "margin", lambda *_: 0.1)  # whatever the calibration found
    own, this = [95, 195, 295], [195, 395, 595]  # each twice as many, 5 added
    found = interval.ratio("fallbacks", this, own, "whole")
    factor = math.exp(interval.margin("fallbacks", "whole"))
    assert found.value == pytest.approx(2)
    assert (found.low, found.high) == pytest.approx((2 / factor, 2 * factor))
    assert found.shown
    same = interval.ratio("fallbacks", own, own, "whole")
    assert same.low < 1 < same.high and not same.shown


@pytest.mark.parametrize("kind", interval.KINDS)
def test_counts_of_reclaim_have_the_widest_margin_of_fallbacks(kind: str) -> None:
    widest = max(interval.margins()[known]["fallbacks"] for known in interval.KINDS)
    assert interval.margin("kswapd passes", kind) == widest


def test_reclaim_is_counted_only_where_it_was_recorded_or_modelled(
    small: Path, golden: Path, tmp_path: Path, pagetape: Run
) -> None:
    for mode in ("R0", "R1"):
        out = tmp_path / f"{mode}.tape"
        said = pagetape("replay", small, "--reclaim", mode, "--ensemble", 0, "-o", out)
        assert said.status == 0, said.err
    counts = {}
    for tape in (golden, small, tmp_path / "R0.tape", tmp_path / "R1.tape"):
        rows = pagetape("report", "metrics", tape, "--json").json["rows"]
        counts[tape.stem] = [row["value"] for row in rows if row["metric"] == "direct reclaims"]
    assert counts == {"golden": [1], "small": [], "R0": [], "R1": [0]}


def test_free_pages_count_in_the_second_half_by_the_mean_of_two_samples(
    golden: Path, tmp_path: Path, pagetape: Run
) -> None:
    """Samples without an instant do not count, and the last one ends the time."""
    moments = [(1, 0, 900, 1), (3, 0, 100, 1), (4, 3, 10, 1), (4.5, 0, 9, None), (5, 0, 40, 1)]
    with Writer(tmp_path / "t.tape", Tape(golden).facts) as out:
        out.rows("event", [{"ts": s * 10**9, "kind": "free", "pfn": 1} | NO_TASK for s in (1, 5)])
        zone = {"at": 1, "node": 0, "zone": "NORMAL"}
        out.rows(
            "free_count",
            [
                zone | {"ts": int(s * 1e9), "page_order": order, "nr_free": nr, "began": began}
                for s, order, nr, began in moments  # s, order, blocks
            ],
        )
    rows = pagetape("report", "metrics", tmp_path / "t.tape", "--json").json["rows"]
    (free,) = (
        row["value"] for row in rows if row["metric"] == "free pages on average in the second half"
    )
    assert free == ((100 + 80) / 2 + (80 + 40) / 2) / 2


# ---- plan and command line


def test_a_dry_run_says_what_it_would_do_and_does_nothing(tmp_path: Path, pagetape: Run) -> None:
    out = tmp_path / "ab"
    setting = "watermark_scale_factor=11,12"
    file = Path("/proc/sys/vm/watermark_scale_factor")
    before = file.read_text()
    said = pagetape("ab", "--set", setting, "--pairs", 2, "-o", out, "--dry-run", "--", *TOUCH)
    assert said.status == 0, said.err
    for words in (
        f"A 11, B 12; it is {before.strip()} now",
        "4 recordings, A B A B, each after a warm-up",
        f"{out}/A-1.tape to {out}/B-2.tape",
        "reclaim R1",
        "kswapd passes",
        "--restore",
    ):
        assert words in said.out
    assert not out.exists() and file.read_text() == before
    plan = pagetape(
        "ab", "--set", setting, "--pairs", 2, "-o", out, "--dry-run", "--json", "--", *TOUCH
    ).json
    assert plan["tapes"] == ["A-1.tape", "B-1.tape", "A-2.tape", "B-2.tape"]
    assert plan["values"] == {"A": "11", "B": "12"}
    assert "kswapd passes" in plan["compared"]


SET = ("--set", "watermark_scale_factor=11,12")


@pytest.mark.parametrize(
    ("args", "status", "words"),
    [
        (("--set", "swappiness=1,2", "-o", "x", "--", "true"), 2, "no switch named 'swappiness'"),
        (("--set", "defrag_mode=0,5", "-o", "x", "--", "true"), 2, "5 is not in 0 to 1"),
        ((*SET, "--", "true"), 2, "needs -o DIR"),
        ((*SET, "-o", "x"), 2, "no command"),
        ((*SET, "--pairs", "1", "-o", "x", "--", "true"), 2, "--pairs"),
        ((), 2, "give one of --set, --again and --restore"),
        (("--restore", *SET), 2, "not --set and --restore"),
        ((*SET, "-o", "x", "--", "no-such-command"), 1, "no-such-command"),
        ((*SET, "-o", ".", "--", "true"), 1, "not an empty directory"),
        (("--again", "no-such-directory"), 1, "no-such-directory"),
    ],
)
def test_wrong_usage(
    args: tuple[str, ...],
    status: int,
    words: str,
    pagetape: Run,
    monkeypatch: pytest.MonkeyPatch,
    fake_host: Host,
) -> None:
    monkeypatch.setattr(switch_module, "Host", lambda: fake_host)  # a live test may run `ab`
    desk = fake_host.root.parent / "desk"
    desk.mkdir()
    monkeypatch.chdir(desk)
    (desk / "a file").touch()
    before = Path("/proc/sys/vm/watermark_scale_factor").read_text()
    said = pagetape("ab", *args)
    assert said.status == status and words in said.err, said.err
    assert said.err.startswith("pagetape: ") and said.err.count("\n") == 1
    assert Path("/proc/sys/vm/watermark_scale_factor").read_text() == before
    assert [path.name for path in desk.iterdir()] == ["a file"]


def test_a_new_ab_first_restores_what_a_killed_one_left(
    fake_host: Host, tmp_path: Path, pagetape: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = "proc/sys/vm/defrag_mode"
    entry = {"name": "vm.defrag_mode", "file": file, "before": "0", "written": ["0", "1"]}
    left = fake_host.root / "run/pagetape/ab.journal"
    left.parent.mkdir(parents=True)
    left.write_text(json.dumps({"pid": 1, "boot_id": "this-boot", "settings": [entry]}))
    fake_host.write(file, "1")
    monkeypatch.setattr(switch_module, "Host", lambda: fake_host)
    dry = ("ab", "--set", "defrag_mode=0,1", "-o", tmp_path / "x", "--dry-run", "--", "true")
    assert "it is 1 now" in pagetape(*dry).out and fake_host.read(file) == "1"
    said = pagetape("ab", "--set", "defrag_mode=0,1", "-o", tmp_path, "--", "true")
    assert said.status == 1  # the directory is not empty
    assert "left by a killed pagetape ab: vm.defrag_mode is 0 again (it was 1)" in said.err
    assert fake_host.read(file) == "0"
    assert "it is 0 now" in pagetape(*dry).out


@livetest.needs(livetest.why_not_nobody)
def test_a_user_who_may_not_change_the_setting_gets_the_reason(tmp_path: Path) -> None:
    argv = [*livetest.as_nobody(), *PAGETAPE, "ab", *SET, "-o", str(tmp_path / "x"), "--", "true"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd="/")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "cannot be written by this user; run as root" in done.stderr


# ---- runs, on a machine of files


@pytest.fixture
def host(fake_host: Host) -> Host:
    return fake_host


class Noted(live.Runner):
    """Runs the command without a recording, and notes the setting."""

    seen: list[tuple[str, str]]

    def warm_up(self, what: str) -> None:
        self.seen.append(("warm-up", self.host.read("proc/sys/vm/defrag_mode")))
        super().warm_up(what)

    def record(self, path: Path, what: str, prepare: Callable[[], None]) -> None:
        prepare()
        self.seen.append((path.stem, self.host.read("proc/sys/vm/defrag_mode")))
        super().warm_up(what)


def plan_of(out: Path, warm_ups: str, *argv: str) -> Plan:
    return Plan(find("defrag_mode"), ("1", "0"), "0", 2, warm_ups, argv or ("true",), out)


def noted(plan: Plan, host: Host) -> list[tuple[str, str]]:
    runner = Noted(plan.argv, host)
    object.__setattr__(runner, "seen", [])
    live.record_runs(plan, host, lambda _line: None, lambda _run, _seconds: None, runner)
    found: list[tuple[str, str]] = runner.seen
    return found


@pytest.mark.parametrize("warm_ups", ["all", "first", "none"])
def test_runs_take_turns_after_a_warm_up_under_the_former_value(
    tmp_path: Path, host: Host, warm_ups: str
) -> None:
    runs = [("A-1", "1"), ("B-1", "0"), ("A-2", "1"), ("B-2", "0")]
    warm = ("warm-up", "0")
    expected = {
        "all": [step for run in runs for step in (warm, run)],
        "first": [warm, *runs],
        "none": runs,
    }
    assert noted(plan_of(tmp_path / "out", warm_ups), host) == expected[warm_ups]
    assert host.read("proc/sys/vm/defrag_mode") == "0"


def test_a_command_that_fails_ends_the_runs(tmp_path: Path, host: Host) -> None:
    plan = plan_of(tmp_path / "out", "none", "sh", "-c", "exit 3")
    with pytest.raises(TapeError, match=r"run A-1 \(vm.defrag_mode=1\).*exit status 3"):
        noted(plan, host)
    assert host.read("proc/sys/vm/defrag_mode") == "0"


@pytest.mark.parametrize(
    ("change", "figure"),
    [
        ("echo oom_kill 4 > {root}/proc/vmstat", "the OOM killer ended 1 process"),
        (
            "printf 'MemTotal: 1000000 kB\\nMemAvailable: 9000 kB\\n' > {root}/proc/meminfo",
            "9.2 MB of memory and swap are available",
        ),
    ],
)
def test_a_machine_without_memory_ends_the_runs(
    tmp_path: Path, host: Host, change: str, figure: str
) -> None:
    shell = f"{change.format(root=host.root)}; exec sleep 60"
    began = time.monotonic()
    with pytest.raises(TapeError) as caught:
        noted(plan_of(tmp_path / "out", "none", "sh", "-c", shell), host)
    assert figure in str(caught.value.strerror) and "run A-1" in str(caught.value.strerror)
    assert time.monotonic() - began < 30
    assert host.read("proc/sys/vm/defrag_mode") == "0"


def test_a_setting_changed_by_another_process_ends_the_runs(tmp_path: Path, host: Host) -> None:
    file = host.root / "proc/sys/vm/defrag_mode"
    plan = plan_of(tmp_path / "out", "none", "sh", "-c", f"echo 9 > {file}")
    with pytest.raises(TapeError, match="was 1 and is 9: another process changed it"):
        noted(plan, host)
    assert host.read("proc/sys/vm/defrag_mode") == "9"


# ---- ab.json


@pytest.fixture
def made(tmp_path: Path, small: Path) -> Path:
    """A directory with two runs of each value, all the same recording."""
    directory = tmp_path / "ab"
    directory.mkdir()
    switch = find("percpu_pagelist_high_fraction")
    plan = Plan(switch, ("0", "8"), "0", 2, "none", ("true",), directory)
    found = Result.begin(plan)
    for run in plan.runs:
        shutil.copytree(small, directory / run.tape)
        found.add(run, 1.0)
        found.write()
    return directory


def test_a_pair_with_a_partial_tape_does_not_count(made: Path, pagetape: Run) -> None:
    """No tape of the fixture has an exact start."""
    found = pagetape("ab", "--again", made, "--ensemble", 1, "--json").json
    assert len(found["partial"]) == 4 and found["pairs_counted"] == []
    assert {metric["verdict"] for metric in found["metrics"]} == {None}
    few = "fewer than two pairs of whole tapes"
    assert few in {metric["no_verdict"] for metric in found["metrics"]}
    assert f"no verdict: {few}" in text(found) and "their pairs do not count" in text(found)
    read = Result.read(made)
    assert read._whole_pairs(["A-2.tape"]) == {1}
    assert read.tapes("B", {1}) == [made / "B-1.tape"]


def test_long_tapes_get_fewer_members(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tapes = Result.read(made).tapes("A")
    assert predict_module.affordable(16, tapes) == 16
    monkeypatch.setattr(predict_module, "_EVENTS_PER_CPU", 1)
    assert predict_module.affordable(16, tapes) == 6
    assert predict_module.affordable(2, tapes) == 2


def test_tapes_are_predicted_again(
    made: Path, pagetape: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predict_module, "partial", lambda _: [])
    found = pagetape("ab", "--again", made, "--json").json
    assert found == json.loads((made / "ab.json").read_text())
    assert found["switch"] == "vm.percpu_pagelist_high_fraction" and len(found["runs"]) == 4
    by_name = {(metric["metric"], metric["from"]): metric for metric in found["metrics"]}
    traffic = find("percpu_pagelist_high_fraction").metrics
    assert {name for name, _ in by_name} == {"allocs", *(f"{m}, per 1000 allocs" for m in traffic)}
    per = by_name["pages taken under the zone lock, per 1000 allocs", "A"]["recorded"]["B"]
    names = ("pages taken under the zone lock", "allocs")
    values = predict_module.recorded(Tape(made / "B-1.tape"), names)
    assert per["values"] == [1000 * values[names[0]] / values["allocs"]] * 2
    drained = by_name["pages drained to the zone, per 1000 allocs", "A"]
    assert drained["live"] == 1 and not drained["live_shown"]
    assert drained["low"] <= drained["predicted"] <= drained["high"]
    assert drained["verdict"] == "no difference shown" and found["missing"] == []
    assert by_name["allocs", "A"]["verdict"] is None
    unfollowed = by_name["pages taken under the zone lock, per 1000 allocs", "A"]
    assert (unfollowed["predicted"], unfollowed["verdict"]) == (None, None)
    assert found["lengths_s"]["A"]["median"] == found["lengths_s"]["B"]["low"] > 0
    shown = pagetape("ab", "--again", made)
    assert "length of the recordings: A " in shown.out and "recorded times" not in shown.out
    assert shown.status == 0 and "verdicts: " in shown.out and "live [spread]" in shown.out


def test_a_recording_that_is_longer_under_one_value_is_reported(made: Path, pagetape: Run) -> None:
    pagetape("ab", "--again", made, "--ensemble", 0)
    found = json.loads((made / "ab.json").read_text())
    found["lengths_s"]["B"]["median"] *= 1.06
    assert "at their recorded times" in text(found)


def test_without_members_nothing_is_predicted(made: Path, pagetape: Run) -> None:
    found = pagetape("ab", "--again", made, "--ensemble", 0, "--json").json
    assert all(metric["predicted"] is None for metric in found["metrics"])


@pytest.mark.parametrize("warm_ups", ["all", "first", "none"])
def test_the_value_of_the_warm_ups_is_predicted_after_one(
    made: Path, warm_ups: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {}

    def predicted(*given: Any) -> dict[str, Any]:
        _, _, value, warm, *_ = given
        asked[value] = warm
        return {}

    monkeypatch.setattr("pagetape.ab.predict.predict", predicted)
    found = Result.read(made)
    found.plan["warm_ups"] = warm_ups
    found.compare(1, lambda _: contextlib.nullcontext(lambda _: None))
    assert asked == {"0": warm_ups == "all", "8": False}  # 0 was the value before


def test_a_switch_without_a_policy_is_recorded_but_not_predicted(made: Path, pagetape: Run) -> None:
    file = made / "ab.json"
    found = json.loads(file.read_text())
    found |= {"switch": "thp.enabled", "values": {"A": "never", "B": "always"}, "predicted": False}
    file.write_text(json.dumps(found))
    said = pagetape("ab", "--again", made)
    assert said.status == 0, said.err
    assert "not predicted: no policy of the model has thp.enabled" in said.out


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"},
        {"switch": "vm.panic"},
        {"runs": [{"side": "A", "number": 1, "tape": "../../etc", "seconds": 1}]},
        {"runs": [{"side": "C", "number": 1, "tape": "C-1.tape", "seconds": 1}]},
        {"values": {}},
        {"values": {"A": "0", "B": [8]}},
        {"values": {"A": "0", "B": "nonsense"}},
        {"values": {"A": "8", "B": "8"}},
        {"before": [1]},
        {"pairs": "x"},
        {"warm_ups": {}},
        {"command": "make -j8"},
        {"kernel": None},
        {"restored": {"x": 1}},
        {"runs": None},
        {"runs": [{"side": "A", "number": "1", "tape": "A-1.tape", "seconds": 1}]},
        {"runs": [{"side": "A", "number": 1, "tape": "A-1.tape", "seconds": "x"}]},
    ],
)
def test_a_file_that_is_no_result_is_refused(
    made: Path, pagetape: Run, change: dict[str, Any]
) -> None:
    file = made / "ab.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    said = pagetape("ab", "--again", made)
    assert said.status == 1 and "is not a result of pagetape ab" in said.err
    file.write_text("{")
    assert pagetape("ab", "--again", made).status == 1


def test_a_run_that_is_there_twice_is_refused(made: Path, pagetape: Run) -> None:
    file = made / "ab.json"
    found = json.loads(file.read_text())
    file.write_text(json.dumps(found | {"runs": [*found["runs"], found["runs"][0]]}))
    said = pagetape("ab", "--again", made)
    assert said.status == 1 and said.err.endswith("pagetape ab: a run is there twice\n")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_result_that_is_no_file_is_refused(
    make: Callable[[Path], None], tmp_path: Path, pagetape: Run
) -> None:
    make(tmp_path / "ab.json")
    said = pagetape("ab", "--again", tmp_path)
    assert (said.status, said.err.count("\n")) == (1, 1) and str(tmp_path / "ab.json") in said.err


def test_a_missing_or_damaged_tape_is_named(made: Path, pagetape: Run) -> None:
    (made / "A-2.tape" / "event.arrow").write_bytes(b"no table")
    said = pagetape("ab", "--again", made)
    assert said.status == 1 and "A-2.tape" in said.err and said.err.count("\n") == 1
    shutil.rmtree(made / "A-2.tape")
    said = pagetape("ab", "--again", made)
    assert said.status == 1 and "A-2.tape: no such tape" in said.err


def test_a_tape_that_is_not_the_one_of_the_run_is_refused(
    made: Path, pagetape: Run, golden: Path, small: Path
) -> None:
    shutil.rmtree(made / "B-1.tape")
    shutil.copytree(golden, made / "B-1.tape")
    said = pagetape("ab", "--again", made)
    assert said.status == 1 and "B-1.tape: is not the recording of run 1 under 8" in said.err
    assert pagetape("replay", small, "-o", made / "B-1.tape", "--force").status == 0
    said = pagetape("ab", "--again", made)
    assert said.status == 1 and "another tape has taken its name" in said.err


def test_an_interrupted_ab_has_too_few_runs(made: Path, pagetape: Run) -> None:
    file = made / "ab.json"
    found = json.loads(file.read_text())
    file.write_text(json.dumps(found | {"runs": found["runs"][:3]}))
    said = pagetape("ab", "--again", made)
    assert said.status == 1 and "fewer than two complete runs of each value" in said.err


def test_a_run_counts_from_its_end(small: Path, tmp_path: Path) -> None:
    shutil.copytree(small, tmp_path / "A-1.tape")
    found = Result(tmp_path, {"values": {"A": "0", "B": "1"}}, {})
    assert found.tapes("A") == []
    found.add(RunOf("A", "0", 1), 2.0)
    assert found.tapes("A") == [tmp_path / "A-1.tape"] and found.tapes("B") == []


def test_every_metric_of_a_switch_can_be_recorded(golden: Path, pagetape: Run) -> None:
    """A metric that no report has would never be compared."""
    rows = pagetape("report", "metrics", golden, "--json").json["rows"]
    known = {row["metric"] for row in rows} | {"kswapd passes", "kswapd sleeps"}
    known |= {"direct reclaims", "kcompactd calls", "kcompactd runs"}
    known |= {"free pageblocks at the end", "free pages on average in the second half"}
    for switch in SWITCHES:
        assert set(switch.metrics) <= known, switch.name


# ---- the tables of make validation


def test_every_case_has_a_row_and_each_verdict_is_counted(
    made: Path, tmp_path: Path, pagetape: Run
) -> None:
    found = pagetape("ab", "--again", made, "--json").json
    found["metrics"][-1]["verdict"] = "wrong"
    nr = sum(metric["verdict"] == "wrong" for metric in found["metrics"])
    (made / "ab.json").write_text(json.dumps(found))
    work = tmp_path / "work"
    work.mkdir()
    made.rename(work / "high-fraction-8")
    for name, file, words in (("boost", "failed", "pagetape: a reason\n"), ("scale", "x", "")):
        (work / name).mkdir()
        (work / name / file).write_text(words)
    tables = validation.tables(validation.results(work))
    assert [row[0] for row in tables["cases"]["rows"]] == [one.name for one in validation.ALL_CASES]
    failed = [row[-1] for row in tables["cases"]["rows"]]
    assert failed.count("pagetape: a reason") == 1 and failed.count(None) == 1
    assert failed.count("not run yet") == len(validation.ALL_CASES) - 2
    assert ["wrong", nr] in [list(row) for row in tables["verdicts"]["rows"]]
    verdicts = [row[-1] for row in tables["metrics"]["rows"]]
    assert verdicts.count("wrong") == nr and len(verdicts) == len(found["metrics"])


def test_a_case_is_a_valid_setting(fake_host: Host) -> None:
    meminfo = fake_host.root / "proc/meminfo"
    meminfo.write_text("MemTotal: 25000000 kB\n")
    for case in validation.CASES:
        switch, values = parse_set(case.setting, fake_host)
        assert switch.policy and len(set(values)) == 2
    for guest in validation.GUEST_CASES:
        switch = find(guest.switch)
        assert switch.policy and [switch.check(value, 400_000) for value in guest.values] == [
            *guest.values
        ]
        assert guest.at("1").set == (f"/{switch.file}=1",)


@pytest.mark.parametrize("to_stderr", [False, True])
def test_the_output_of_the_command_does_not_mix_with_the_answer(
    to_stderr: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    workload = Workload(["echo", "hello"], None, to_stderr=to_stderr)
    workload.start()
    assert workload.wait(60) and workload.finish() == 0
    said = capfd.readouterr()
    assert (said.out, said.err) == (("", "hello\n") if to_stderr else ("hello\n", ""))


# ---- this machine

BOOST = Path("/proc/sys/vm/watermark_boost_factor")


def other_boost() -> str:
    """A harmless pair: one more than the value now, and the value now."""
    now = int(BOOST.read_text())
    return f"watermark_boost_factor={now + 1},{now}"


def skip_if_busy(err: str) -> None:
    if "another pagetape ab runs" in err:
        livetest.skip("another pagetape ab runs", by_chance=True)


@livetest.recording
def test_two_values_are_recorded_and_predicted(tmp_path: Path, pagetape: Run) -> None:
    before = BOOST.read_text()
    out = tmp_path / "ab"
    options = ("--pairs", 2, "--warm-up", "first", "--ensemble", 2, "-o", out, "--json")
    said = pagetape("ab", "--set", other_boost(), *options, "--", *TOUCH)
    skip_if_busy(said.err)
    found = said.json
    assert BOOST.read_text() == before
    assert sorted(path.name for path in out.iterdir()) == [
        *("A-1.tape", "A-2.tape", "B-1.tape", "B-2.tape", "ab.json")
    ]
    values = set()
    for run in found["runs"]:
        tape = Tape(out / run["tape"])
        assert tape.num_rows("event") > 0
        values.add((run["side"], tape.facts["sysctls"]["vm.watermark_boost_factor"]))
        changes = [r for r in tape.rows("parameter") if r["name"] == "vm.watermark_boost_factor"]
        assert changes == []  # the write was before the recording
    now = int(before)
    assert values == {("A", str(now + 1)), ("B", str(now))}
    assert {m["verdict"] for m in found["metrics"]} <= {None, AGREES, NONE, NOISE, WRONG}
    assert "another process" not in said.err


@livetest.recording
def test_the_next_command_restores_after_a_kill(tmp_path: Path, pagetape: Run) -> None:
    before = BOOST.read_text()
    argv = [*PAGETAPE, "ab", "--set", other_boost(), "--warm-up", "none", "-o", str(tmp_path / "x")]
    with (
        (tmp_path / "err").open("w") as err,
        subprocess.Popen(
            [*argv, "--", "sleep", "60"], stderr=err, start_new_session=True
        ) as process,
    ):
        try:
            deadline = time.monotonic() + 60
            while BOOST.read_text() == before:
                skip_if_busy((tmp_path / "err").read_text())
                assert process.poll() is None and time.monotonic() < deadline
                time.sleep(0.05)
            process.kill()
            process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            said = pagetape("ab", "--restore")
    assert "vm.watermark_boost_factor is" in said.out and "again" in said.out, said.err
    assert BOOST.read_text() == before
    assert "nothing to restore" in pagetape("ab", "--restore").out
    instances = Path("/sys/kernel/tracing/instances")
    deadline = time.monotonic() + 60
    while list(instances.glob(f"pagetape-{process.pid}-*")):  # until its guard has removed it
        assert time.monotonic() < deadline
        time.sleep(0.01)


# ---- tapes that the model does not follow


def test_a_tape_which_the_model_does_not_follow_predicts_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of three tapes, the model follows two, one or none in the fallbacks."""
    own, this = [100, 110, 120, 130] * 4, [50, 55, 60, 65] * 4
    values = dict(zip("abc", (115, 115, 900), strict=True))
    monkeypatch.setattr(predict_module, "_pairs", lambda *_: {"fallbacks": (this, own)})
    monkeypatch.setattr(predict_module.replay_span, "kind", lambda _: "whole")
    monkeypatch.setattr(
        predict_module, "in_mode", lambda _, run, mode: replace(run, reclaim=mode and "R0")
    )
    monkeypatch.setattr(predict_module, "without_verdict", lambda *_: None)
    monkeypatch.setattr(
        predict_module,
        "Tape",
        lambda path: path,
    )
    monkeypatch.setattr(
        predict_module,
        "recorded_metrics",
        lambda path: {"fallbacks": {"unit": "events", "value": values[path.name], "most": None}},
    )

    class Bar:
        def __enter__(self) -> None: ...
        def __exit__(self, *_: object) -> None: ...

    class Changed:
        policy, name, metrics, reclaim = "pcp", "x", ("fallbacks",), "R0"

        def policies(self, *_: object) -> tuple[str, ...]:
            return ("pcp",)

    def predicted(*names: str) -> Any:
        tapes = [tmp_path / name for name in names]
        return predict_module.predict(Changed(), tapes, "1", False, 16, lambda _: Bar())[  # type: ignore[arg-type, return-value]
            "fallbacks"
        ]

    both = predicted("a", "b")
    assert (both.followed, both.tapes) == (2, 2) and both.no_verdict is None
    mixed = predicted("a", "c")
    assert (mixed.followed, mixed.tapes) == (1, 2)
    assert mixed.ratio == predicted("a").ratio
    none = predicted("c")
    assert none.ratio is None and none.no_verdict.startswith(
        "not followed: recorded 900, own rules"
    )
    row = result_module._metric("fallbacks", Recorded([9, 10], [5, 6]), "A", none)
    assert row["verdict"] is None and row["predicted"] is None and row["low"] is None
    assert cells(row)[-1] == none.no_verdict

# SPDX-License-Identifier: Apache-2.0
"""A tape knows its recording: what may stand beside it, whatever the files are called."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import matrix
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pagetape as api
from pagetape.asking import query
from pagetape.schemas.tape import Tape, Writer
from pagetape.tapes import origin

from .conftest import make, rewritten

Run = Callable[..., Any]

NOFRAGMENT = ("--policy", "nofragment:mode=always")
SEVERAL = matrix.some([q.name for q in query.reports().values() if q.several], 4)


def copied(
    source: Path, to: Path, facts: dict[str, Any] | None = None, later: int = 0, rows: int = 1 << 30
) -> Path:
    """A tape with other facts, whose first `rows` events come `later` (ns)."""
    tape = Tape(source)
    to.parent.mkdir(exist_ok=True)
    with Writer(to, tape.facts if facts is None else facts) as out:
        for name in tape.tables:
            table = tape.table(name)
            if name == "event":
                times = pc.add(table["ts"], later).cast(table.schema.field("ts").type)
                table = table.set_column(0, table.schema.field("ts"), times).slice(0, rows)
            for batch in table.combine_chunks().to_batches():
                out.write(name, batch)
    return to


def without_id(path: Path, *others: str) -> Path:
    """The tape of a replay as an older pagetape made it: without the id of its recording."""
    tape = Tape(path)
    left_out = {"recording_id", "recording_name", *others}
    made = {name: value for name, value in tape.facts["replay"].items() if name not in left_out}
    old = copied(path, path.with_name("copy.tape"), tape.facts | {"replay": made})
    path.unlink()
    return old.rename(path)


@pytest.fixture(scope="module")
def desk(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with server.tape and its what-if, noboost.tape."""
    desk = tmp_path_factory.mktemp("desk")
    assert Tape(small).table("event").schema.names[0] == "ts"
    server = copied(small, desk / "server.tape", later=12345)
    make("replay", server, *NOFRAGMENT, "-o", desk / "noboost.tape")
    return desk


@pytest.fixture
def server(desk: Path, tmp_path: Path) -> Path:
    """A recording of the same machine, boot and length as `small`, at another time."""
    return Path(shutil.copytree(desk / "server.tape", tmp_path / "server.tape"))


@pytest.fixture
def whatif(desk: Path, tmp_path: Path) -> Path:
    """What a reader of several pages has: the what-if of another recording, by its usual name."""
    return Path(shutil.copy(desk / "noboost.tape", tmp_path))


def refused(said: Any, *names: object) -> None:
    assert said.status == 1 and said.out == "" and said.err.count("\n") == 1, (said.out, said.err)
    assert all(str(name) in said.err for name in names), said.err


def test_a_what_if_of_another_recording_is_refused_by_both_names(
    small: Path, server: Path, whatif: Path, tmp_path: Path, pagetape: Run
) -> None:
    page = tmp_path / "page.html"
    said = pagetape("compare", small, whatif)
    refused(said, small, whatif, "server.tape")
    assert pagetape("compare", small, whatif, "--json").err == said.err
    refused(pagetape("html", small, whatif, "-o", page), small, whatif)
    assert not page.exists()
    for report in SEVERAL:
        refused(pagetape("report", report, small, whatif), small, whatif)
    with pytest.raises(api.Error, match=f"{whatif}.* replay of server.tape, not of {small}"):
        api.compare(small, whatif)
    with pytest.raises(api.Error, match=r"replay of server\.tape"):
        api.open(small, whatif).report("extfrag.matrix").rows()
    assert pagetape("compare", server, whatif).status == 0


def test_it_is_refused_wherever_it_stands(
    small: Path, played: Path, server: Path, whatif: Path, tmp_path: Path, pagetape: Run
) -> None:
    mine = tmp_path / "mine.tape"
    pagetape("replay", small, *NOFRAGMENT, "-o", mine)
    refused(pagetape("compare", small, mine, whatif), small, whatif)
    refused(pagetape("compare", played, whatif), played, whatif, small.name)
    refused(pagetape("compare", mine, whatif), mine, whatif)
    refused(pagetape("compare", mine, server), mine, server)  # a recording, but not its own
    refused(pagetape("compare", small, server, whatif), small, whatif)
    assert pagetape("compare", mine, small).status == 0


def test_two_recordings_of_one_name_are_two(
    small: Path, server: Path, tmp_path: Path, pagetape: Run
) -> None:
    here, there = tmp_path / "a", tmp_path / "b"
    for place, source in ((here, small), (there, server)):
        shutil.copytree(source, place / "base.tape")
        pagetape("replay", place / "base.tape", *NOFRAGMENT, "-o", place / "whatif.tape")
    said = pagetape("compare", here / "base.tape", there / "whatif.tape")
    refused(said, here / "base.tape", there / "whatif.tape", "both recordings are called base.tape")
    assert pagetape("compare", here / "base.tape", here / "whatif.tape").status == 0


def test_copies_names_and_private_copies_leave_it_the_recording(
    server: Path, whatif: Path, tmp_path: Path, pagetape: Run
) -> None:
    moved = shutil.copytree(server, tmp_path / "elsewhere" / "other name.tape")
    renamed = Path(shutil.copy(whatif, tmp_path / "elsewhere" / "w.tape"))
    again = copied(server, tmp_path / "again.tape")
    base = pagetape("compare", server, whatif, "--json").json
    for recording in (moved, again):
        found = pagetape("compare", recording, renamed, "--json").json
        assert [m["differences"]["w"] for m in found["metrics"]] == [
            m["differences"]["noboost"] for m in base["metrics"]
        ]
        assert found["tapes"][1]["beside"] is None
    for how in ("hash", "drop"):
        private = tmp_path / f"{how}.tape"
        if pagetape("import", server, "--private", how, "-o", private).status == 0:
            assert pagetape("compare", private, whatif).status == 0
            assert origin.recording_id(Tape(private)) == origin.recording_id(Tape(server))


def test_a_private_tape_keeps_its_id(small: Path) -> None:
    from pagetape.recording.private import Veil

    tape, veil = Tape(small), Veil("hash")
    hidden = small.with_name("hidden.tape")
    with Writer(hidden, veil.facts(tape.facts)) as out:
        for batch in tape.batches("event"):
            out.write("event", veil.batch("event", batch))
    try:
        assert Tape(hidden).table("event")["pfn"][0] != tape.table("event")["pfn"][0]
        assert origin.recording_id(Tape(hidden)) == origin.recording_id(tape) is not None
    finally:
        shutil.rmtree(hidden)


def test_a_recording_that_was_cut_is_compared_but_said_to_be_shorter(
    server: Path, whatif: Path, tmp_path: Path, pagetape: Run
) -> None:
    short = copied(server, tmp_path / "short.tape", rows=4000)
    said = pagetape("compare", short, whatif)
    assert said.status == 0, said.err
    assert "noboost: not of the same part of the recording as short: " in said.out
    out = tmp_path / "of-short.tape"
    pagetape("replay", short, *NOFRAGMENT, "-o", out)
    assert "same part" not in pagetape("compare", short, out).out


def test_two_recordings_are_said_to_be_two(
    small: Path, server: Path, tmp_path: Path, pagetape: Run
) -> None:
    line = "server: another recording than small: the difference is of two loads, not of two sets"
    said = pagetape("compare", small, server)
    assert said.status == 0 and line in said.out
    found = pagetape("compare", small, server, "--json").json
    assert line.removeprefix("server: ") in found["tapes"][1]["beside"]
    assert not any(
        (one := metric["differences"]["server"]) and (one["shown"] is not None or one["low"])
        for metric in found["metrics"]
    )
    for report in SEVERAL:
        said = pagetape("report", report, small, server, "--json")
        if said.status == 0:  # a report that these tapes have nothing for ends with a reason
            assert line in said.json["note"], report
    page = tmp_path / "page.html"
    assert pagetape("html", small, server, "-o", page).status == 0
    assert line in page.read_text()
    assert (
        "another recording"
        not in pagetape("compare", small, small.parent / "small.tape/../small.tape").out
    )


def test_replays_without_an_id_are_known_by_their_facts_and_times(
    small: Path, server: Path, whatif: Path, pagetape: Run
) -> None:
    old = without_id(whatif)
    assert pagetape("compare", server, old).status == 0
    assert "may come from another" not in pagetape("compare", server, old).out
    refused(pagetape("compare", small, old), small, old, "another recording")


def test_a_replay_that_shows_nothing_is_compared_and_said_to_be_unknown(
    server: Path, whatif: Path, pagetape: Run
) -> None:
    old = without_id(whatif, "clock")
    said = pagetape("compare", server, old)
    assert said.status == 0
    assert "noboost: may come from another recording than server: an older pagetape" in said.out


def test_facts_that_differ_show_another_recording(small: Path, whatif: Path) -> None:
    old, one = Tape(without_id(whatif, "clock")), origin.of(Tape(small))
    its = origin.of(old)
    assert origin.kin(one, its) == origin.UNKNOWN
    for name, value in (("boot_id", "another"), ("kernel", "5.4.0"), ("cpus", 64)):
        other = origin.Origin(None, None, "", None, its.facts | {name: value})
        assert origin.kin(one, other) == origin.OTHER == origin.kin(other, one), name
    hidden = origin.Origin(None, None, "", None, its.facts | {"boot_id": "hash", "private": {}})
    assert origin.kin(one, hidden) == origin.UNKNOWN


def test_a_replaced_tape_of_another_recording_is_named(
    small: Path, server: Path, whatif: Path, pagetape: Run
) -> None:
    words = ("replay", small, *NOFRAGMENT, "-o", whatif)
    assert pagetape(*words).status == 1  # without --force it stays
    assert f"{whatif}: replaces a replay of server.tape\n" in pagetape(*words, "--force").err
    assert "replaces" not in pagetape(*words, "--force").err  # now it is of that recording
    said = pagetape("validate", small, "-o", server, "--force")
    assert said.status == 0 and f"{server}: replaces a recording\n" in said.err


def test_one_tape_named_twice_is_refused(small: Path, pagetape: Run) -> None:
    for words in (("compare", small, small), ("report", "pcp.traffic", small, small)):
        refused(pagetape(*words), f"{small}: is named twice")


def test_info_shows_the_recording(server: Path, whatif: Path, pagetape: Run) -> None:
    ids = [pagetape("info", tape, "--json").json["recording_id"] for tape in (server, whatif)]
    assert ids[0] == ids[1] is not None
    said = pagetape("info", whatif).out
    assert "; of server.tape\n" in said and f"recording  {ids[0]}\n" in said


# ---- two what-ifs of one recording


@pytest.fixture(scope="module")
def pair(reclaimed: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two kernels on one recording."""
    place = tmp_path_factory.mktemp("pair")
    for name, kernel in (("old", "5.10"), ("new", "6.5")):
        words = ("replay", reclaimed, "--kernel", kernel, "--ensemble", 5)
        make(*words, "-o", place / f"{name}.tape")
    return place / "old.tape", place / "new.tape"


def judged(difference: dict[str, Any] | None) -> bool:
    """Whether a difference has numbers: the model follows the tape in it."""
    return difference is not None and difference["no_verdict"] is None


def members(tape: Path, metric: str) -> dict[int, int]:
    rows = Tape(tape).rows("member")
    return {
        row["seed"]: row["value"]
        for row in rows
        if row["run"] == "this" and row["metric"] == metric
    }


def test_two_what_ifs_are_paired_by_their_seeds(pair: tuple[Path, Path], pagetape: Run) -> None:
    found = pagetape("compare", *pair, "--json").json
    assert found["tapes"][1]["compared_with"] == "old"
    assert found["tapes"][1]["unpaired"] is None
    paired = 0
    for metric in found["metrics"]:
        old, new = (members(tape, metric["metric"]) for tape in pair)
        difference = metric["differences"]["new"]
        if old and new and judged(difference):
            paired += 1
            expected = median(new.values()) - median(old.values())
            assert difference["value"] == expected, metric["metric"]
            assert difference["low"] <= difference["value"] <= difference["high"]
            assert difference["shown"] == (difference["low"] > 0 or difference["high"] < 0)
    assert paired > 20
    swapped = pagetape("compare", *reversed(pair), "--json").json
    for one, other in zip(found["metrics"], swapped["metrics"], strict=True):
        if judged(a := one["differences"]["new"]):
            assert a["value"] == -other["differences"]["old"]["value"]


def test_their_rules_are_named_with_the_releases(pair: tuple[Path, Path], pagetape: Run) -> None:
    said = pagetape("compare", *pair).out
    assert said.splitlines()[0].split()[-2:] == ["against", "old"]
    assert "old (what-if: kernel 5.10 (5.9.0 to 5.13.y), mainline): " in said
    assert "new (what-if: kernel 6.5 (6.3.0 to 6.6.y), mainline): " in said


def test_a_smaller_ensemble_is_paired_as_far_as_it_goes(
    reclaimed: Path, pair: tuple[Path, Path], tmp_path: Path, pagetape: Run
) -> None:
    words = ("replay", reclaimed, "--kernel", "6.5", "--ensemble", 3, "-o", tmp_path / "three.tape")
    pagetape(*words)
    found = pagetape("compare", pair[0], tmp_path / "three.tape", "--json").json
    compared = 0
    for metric in found["metrics"]:
        old, new = (members(tape, metric["metric"]) for tape in pair)
        difference = metric["differences"]["three"]
        if old and new and judged(difference):
            compared += 1
            medians = [median(values[seed] for seed in (1, 2, 3)) for values in (new, old)]
            assert difference["value"] == medians[0] - medians[1]
    assert compared > 20


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--ensemble", 0), "three has no members: replay it again, without --ensemble 0"),
        (("--reclaim", "R2"), "old was played with reclaim R1, three with R2"),
        (("--assisted",), "old was played with assisted False, three with True"),
    ],
)
def test_what_ifs_of_other_inputs_have_no_interval(
    words: tuple[Any, ...],
    why: str,
    reclaimed: Path,
    pair: tuple[Path, Path],
    tmp_path: Path,
    pagetape: Run,
) -> None:
    out = tmp_path / "three.tape"
    assert pagetape("replay", reclaimed, "--kernel", "6.5", *words, "-o", out).status == 0
    found = pagetape("compare", pair[0], out, "--json").json
    assert found["tapes"][1]["unpaired"] == why
    shown = [d["shown"] for m in found["metrics"] if judged(d := m["differences"]["three"])]
    assert shown and set(shown) == {None}
    assert f"three: no interval of the difference: {why}\n" in pagetape("compare", pair[0], out).out


def test_members_of_a_metric_that_the_tape_no_longer_has_are_not_paired(
    pair: tuple[Path, Path], tmp_path: Path, pagetape: Run
) -> None:
    """A damaged tape: its ensemble counted pageblocks at the end, its own table has none."""

    def cut(name: str, rows: pa.Table) -> pa.Table:
        if name != "block_count":
            return rows
        return rows.filter(pc.equal(rows["snapshot"].cast("string"), "start"))

    out = rewritten(pair[1], tmp_path / "cut.tape", change=cut)
    found = pagetape("compare", pair[0], out, "--json").json
    ends = [m for m in found["metrics"] if m["metric"].startswith("pageblocks ")]
    assert ends and all(m["differences"]["cut"] is None for m in ends)


def test_what_ifs_of_different_versions_are_not_paired(
    pair: tuple[Path, Path], tmp_path: Path, pagetape: Run
) -> None:
    tape = Tape(pair[1])
    other = tmp_path / "other.tape"
    with Writer(other, tape.facts) as out:
        for name in tape.tables:
            if name == "member":
                rows = tape.rows(name)
                out.rows(
                    name, [row | {"value": row["value"] + (row["run"] == "own")} for row in rows]
                )
            else:
                for batch in tape.batches(name):
                    out.write(name, batch)
    found = pagetape("compare", pair[0], other, "--json").json
    assert "different versions of pagetape" in found["tapes"][1]["unpaired"]


def test_the_runs_of_a_sweep_can_be_paired(reclaimed: Path, tmp_path: Path, pagetape: Run) -> None:
    runs = pagetape(
        "sweep", reclaimed, "--kernel", "{5.10,6.5}", "-o", tmp_path / "matrix", "--json"
    ).json["runs"]
    tapes = [tmp_path / "matrix" / f"{run['name']}.tape" for run in runs]
    found = pagetape("compare", *tapes, "--json").json
    assert found["tapes"][1]["unpaired"] is None
    shown = [d["shown"] for m in found["metrics"] for d in m["differences"].values() if d]
    assert shown and None not in shown
    assert {run["recording_name"] for run in runs} == {"reclaimed.tape"}


def test_the_page_of_two_what_ifs_says_what_they_are_compared_with(
    pair: tuple[Path, Path], tmp_path: Path, pagetape: Run
) -> None:
    page = tmp_path / "page.html"
    assert pagetape("html", *pair, "-o", page).status == 0
    assert "Each tape is compared with old, member by member." in page.read_text()


# ---- other things that are joined by name


@pytest.mark.parametrize(
    "what", ["FIFO", "directory", "empty", "binary", "of a process", "missing"]
)
def test_numa_maps_that_are_none_are_refused(
    what: str, small: Path, tmp_path: Path, pagetape: Run
) -> None:
    maps = Path("/proc/self/mem") if what == "of a process" else tmp_path / "numa_maps"
    makers: dict[str, Callable[[Path], object]] = {
        "FIFO": os.mkfifo,
        "directory": Path.mkdir,
        "empty": Path.touch,
        "binary": lambda path: path.write_bytes(bytes(range(256))),
    }
    if what in makers:
        makers[what](maps)
    refused(pagetape("replay", small, "--numa-maps", maps), maps)


def test_numa_maps_of_another_machine_are_refused(
    small: Path, tmp_path: Path, pagetape: Run
) -> None:
    maps = tmp_path / "maps"
    maps.write_text("/proc/4242/numa_maps:7f00 default anon=3 N0=3\n")
    refused(pagetape("replay", small, "--numa-maps", maps), maps, small)
    maps.write_text("/proc/100/numa_maps:7f00 default anon=3 N0=3\n")
    assert pagetape("replay", small, "--numa-maps", maps).status == 0


def test_a_sweep_of_another_tape_in_the_same_directory_keeps_both(
    small: Path, server: Path, tmp_path: Path, pagetape: Run
) -> None:
    out, tapes = tmp_path / "matrix", [tmp_path / "a" / "x.tape", tmp_path / "b" / "x.tape"]
    for tape, source in zip(tapes, (small, server), strict=True):
        shutil.copytree(source, tape)
        assert pagetape("sweep", tape, *NOFRAGMENT, "-o", out, "--json").json["reused"] == 0
    found = sorted(out.glob("*.tape"))
    assert len(found) == 2
    refused(pagetape("compare", *found), *found)
    ids = {json.loads(path.read_text())["recording_id"] for path in out.glob("*.json")}
    assert ids == {origin.recording_id(Tape(tape)) for tape in tapes} and len(ids) == 2


def test_reports_of_two_recordings_say_so_in_python_too(small: Path, server: Path) -> None:
    found = api.open(small, server).report("pcp.traffic")
    assert "server: another recording than small" in found.title


def test_the_archive_keeps_replays_of_two_recordings_of_one_name_apart(
    small: Path, server: Path, tmp_path: Path, pagetape: Run
) -> None:
    """Two tapes of one name, without a boot or a file that would keep them apart."""
    tapes = []
    for place, source in (("a", small), ("b", server)):
        facts = {n: v for n, v in Tape(source).facts.items() if n not in ("boot_id", "recorded_at")}
        base = copied(source, tmp_path / place / "x.tape", facts | {"source": "trace.dat"})
        tapes.append(tmp_path / place / "whatif.tape")
        pagetape("replay", base, *NOFRAGMENT, "--ensemble", 0, "-o", tapes[-1])
    for tape in tapes:
        said = pagetape("archive", tape, "-o", tmp_path / "archive")
        assert said.status == 0, said.err
    assert len(list((tmp_path / "archive").rglob("*.tape"))) == 2


def test_a_replay_of_a_replay_is_none_of_the_recording(
    server: Path, whatif: Path, tmp_path: Path, pagetape: Run
) -> None:
    """Its requests are those of the first replay: it is not what the own rules would have done."""
    second = tmp_path / "second.tape"
    assert pagetape("replay", whatif, "-o", second).status == 0
    refused(pagetape("compare", server, second), server, second, "a replay of noboost.tape")
    assert pagetape("compare", whatif, second).status == 0


def test_many_recordings_share_one_line(small: Path, tmp_path: Path, pagetape: Run) -> None:
    others = [copied(small, tmp_path / f"night-{n}.tape", later=n) for n in range(1, 6)]
    words = ("report", "pcp.traffic", small)
    assert "night-1, night-2: another recording" in pagetape(*words, *others[:2]).out
    said = pagetape(*words, *others)
    assert said.out.count("another recording") == 1 and "5 tapes: another recording" in said.out

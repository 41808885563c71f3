# SPDX-License-Identifier: Apache-2.0
"""`pagetape kernels`, and the warnings about a release whose source nobody read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pagetape import _replay
from pagetape.schemas.tape import Tape, Writer
from pagetape.tapes import kernel_rows

Run = Callable[..., Any]

NEWEST = _replay.kernels()[-1]["name"]
OF_7_9 = f"played by the rules of {NEWEST}: 7.9 is newer than any kernel that pagetape knows"


@pytest.fixture
def released(small: Path, tmp_path: Path) -> Callable[[str], Path]:
    """Makes the small tape as a recording of the kernel `release`."""

    def make(release: str) -> Path:
        tape = Tape(small)
        path = tmp_path / "small.tape"
        with Writer(path, tape.facts | {"kernel": release, "version": ""}) as out:
            for name in tape.tables:
                for batch in tape.batches(name):
                    out.write(name, batch)
        return path

    return make


def numbers(text: str) -> tuple[int, ...]:
    found = [int(number) for number in text.split(".")]
    return tuple(found + [0] * (3 - len(found)))


def test_every_row_of_the_engine_has_an_entry() -> None:
    assert [row.name for row in kernel_rows.known()] == [row["name"] for row in _replay.kernels()]


def test_the_releases_of_the_entries_are_those_of_the_engine() -> None:
    starts = sorted((numbers(text), row.name) for row in kernel_rows.known() for text in row.since)
    minors = {2: range(6, 7), 4: range(21), 5: range(21), 6: range(21), 7: range(12)}
    for major, its in minors.items():
        for minor in its:
            for patch in range(31, 45) if major == 2 else range(200):
                release = (major, minor, patch)
                row = [name for start, name in starts if start <= release][-1]
                assert _replay.kernel_for_release(".".join(map(str, release))) == row


def test_a_less_sure_feature_is_a_change_of_its_row() -> None:
    described = {row["name"]: row for row in kernel_rows.described()}
    for row in kernel_rows.known():
        changes = {change["feature"]: change["sure"] for change in described[row.name]["changes"]}
        assert row.changes.keys() <= changes.keys(), row.name
        for feature, sure in row.changes.items():
            assert changes[feature] == kernel_rows.SURE[sure] != kernel_rows.SURE[row.sure]


def test_the_evidence_of_a_row_is_from_its_own_releases() -> None:
    for row in kernel_rows.known():
        assert row.source or row.image
        for release in (*row.source, *row.image):
            assert kernel_rows.of_release(release) == row.name


def test_kernels_lists_the_rows(pagetape: Run) -> None:
    rows = {row["name"]: row for row in pagetape("kernels", "--json").json["kernels"]}
    assert list(rows) == [row["name"] for row in _replay.kernels()]
    backport = rows["6.12.117"]
    assert backport["releases"] == [
        {"from": "6.12.29", "until": "6.13"},
        {"from": "6.14.7", "until": "6.15"},
    ]
    assert (backport["sure"], backport["source"]) == ("source read", ["6.12.117"])
    assert backport["changed_from"] == "6.12.19"
    assert {change["feature"]: change["after"] for change in backport["changes"]} == {
        "merge": "only U, M and R; retypes the buddy's blocks",
        "boost_trigger": "every attempt to claim a pageblock",
        "fallback": "claim the largest, else steal the smallest",
        "highatomic_needs_high": "yes",
        "decay": "in pieces of batch",
    }
    assert rows["6.5"]["changed_from"] == "6.1.0"
    assert rows["7.0"]["sure"] == "image seen"
    sure = {change["feature"]: change["sure"] for change in rows["7.0"]["changes"]}
    assert sure == {
        "kswapd_hopeless": "image seen",
        "compact_turn": "date of a patch",
    }
    assert rows[NEWEST]["releases"][-1]["until"] is None


def test_kernels_shows_the_row_of_one_release(pagetape: Run) -> None:
    found = pagetape("kernels", "6.12.80").out
    assert found.startswith("6.12.117: ")
    assert "releases  6.12.29 until 6.13, 6.14.7 until 6.15\n" in found
    assert "sure      source read (6.12.117)\n" in found
    assert "newer" not in found
    found = pagetape("kernels", "7.9")
    assert found.out.startswith(f"{NEWEST}: ")
    assert found.out.endswith("\n7.9 is newer than any kernel that pagetape knows\n")
    for bad in ("auto", "2.6.30", "new"):
        found = pagetape("kernels", bad)
        assert (found.status, found.err.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    ("release", "reason"),
    [
        ("6.18.44-fc", None),
        ("6.12.200+deb12-amd64", None),
        ("5.14.0-427.el9", None),
        ("2.6.32-754.el6", None),
        ("7.9", "7.9 is newer than any kernel that pagetape knows"),
        ("8.0.1-cloud", "8.0.1-cloud is newer than any kernel that pagetape knows"),
        ("5.15.0-91-generic", "nobody read the source of 5.15"),
        ("4.19.300", "nobody read the source of 4.19"),
        ("2.6.39", "nobody read the source of 2.6.39"),
        ("7.1.13+deb13", "only the image of 7.1 was seen, not its source"),
        ("2.6.30", "'2.6.30' is not a release that pagetape knows"),
        ("new", "'new' is not a release that pagetape knows"),
    ],
)
def test_a_release_has_a_warning_unless_its_source_was_read(
    release: str, reason: str | None
) -> None:
    assert kernel_rows.warning_about(release) == reason


def test_every_answer_about_a_newer_kernel_names_the_row(
    released: Callable[[str], Path], pagetape: Run, tmp_path: Path
) -> None:
    tape = released("7.9")
    out, found = tmp_path / "out.tape", tmp_path / "found.tape"
    whatif = ("--policy", "nofragment:mode=always", "-o", out)
    for args in (
        ("info", tape),
        ("validate", tape, "-o", found),
        ("replay", tape, *whatif),
        ("info", out),
        *(("report", name, at) for name in ("extfrag.by_order", "loss") for at in (tape, out)),
        ("report", "model.exactness", found),
    ):
        again = ("--force",) if "-o" in args else ()
        text = pagetape(*args)
        assert (text.status, text.out.count(OF_7_9)) == (0, 1), args
        assert pagetape(*args, *again, "--json").json["kernel_warnings"] == [OF_7_9], args
    assert pagetape("info", tape, "--json").json["kernel_row"] == NEWEST


def test_answers_about_several_tapes_name_the_row_of_each(
    released: Callable[[str], Path], golden: Path, pagetape: Run, tmp_path: Path
) -> None:
    tape = released("7.9")
    sides = pagetape("compare", golden, tape, "--json").json["tapes"]
    assert [side["kernel_warnings"] for side in sides] == [[], [OF_7_9]]
    assert f"small: {OF_7_9}\n" in pagetape("compare", golden, tape).out
    args = ("report", "extfrag.reduction", golden, tape)
    assert pagetape(*args, "--json").json["kernel_warnings"] == [f"small: {OF_7_9}"]
    assert f"small: {OF_7_9}\n" in pagetape(*args).out
    page = tmp_path / "page.html"
    assert pagetape("html", golden, tape, "-o", page).status == 0
    assert page.read_text().count(OF_7_9) == 1


def test_a_sweep_names_the_row_of_each_run(
    released: Callable[[str], Path], pagetape: Run, tmp_path: Path
) -> None:
    page = tmp_path / "sweep.html"
    args = ("sweep", released("7.9"), "--kernel", "{auto,6.6}", "-o", tmp_path / "runs")
    text = pagetape(*args, "--html", page)
    of_6_6 = "played by the rules of 6.5: nobody read the source of 6.6"
    mixed = OF_7_9.replace(f"rules of {NEWEST}", "rules of 6.5")
    warnings = {
        run["kernel"]: run["kernel_warnings"] for run in pagetape(*args, "--json").json["runs"]
    }
    assert warnings == {NEWEST: [OF_7_9], "6.5": [mixed, of_6_6]}
    for line in (OF_7_9, mixed, of_6_6):
        assert text.out.count(f"{line}\n") == 1
        assert page.read_text().count(line) == 1


def test_a_kernel_that_is_given_does_not_silence_the_warning(
    released: Callable[[str], Path], pagetape: Run, tmp_path: Path
) -> None:
    tape, out = released("7.9"), tmp_path / "out.tape"
    line = "played by the rules of 6.18: 7.9 is newer than any kernel that pagetape knows"
    for command in ("validate", "replay"):
        found = pagetape(command, tape, "--kernel", "6.18", "-o", out, "--force", "--json").json
        assert (found["kernel"], found["kernel_warnings"]) == ("6.18", [line])
        assert pagetape("report", "loss", out, "--json").json["kernel_warnings"] == [line]


def test_a_given_kernel_has_a_warning_of_its_own(
    released: Callable[[str], Path], pagetape: Run
) -> None:
    tape = released("6.18.1")
    found = pagetape("replay", tape, "--kernel", "5.15", "--json").json
    assert found["kernel_warnings"] == [
        "played by the rules of 5.14: nobody read the source of 5.15"
    ]


def test_a_kernel_whose_source_was_read_has_no_warning(
    released: Callable[[str], Path], pagetape: Run
) -> None:
    tape = released("6.18.1")
    for args in (("info", tape), ("replay", tape), ("validate", tape), ("report", "loss", tape)):
        assert pagetape(*args, "--json").json["kernel_warnings"] == []
        assert "played by the rules" not in pagetape(*args).out


def test_a_release_without_a_row_does_not_stop_a_report(
    released: Callable[[str], Path], pagetape: Run
) -> None:
    tape = released("mine")
    line = "no rules: 'mine' is not a release that pagetape knows"
    assert pagetape("report", "loss", tape, "--json").json["kernel_warnings"] == [line]
    info = pagetape("info", tape, "--json").json
    assert (info["kernel_row"], info["kernel_warnings"]) == (None, [line])

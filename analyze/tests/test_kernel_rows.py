# SPDX-License-Identifier: Apache-2.0
"""`pagetape kernels`, and the warnings about a release whose source nobody read."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pagetape as api
from pagetape import _replay
from pagetape.tapes import fallback_unit, kernel_rows

from .conftest import rewritten

DOCS = Path(__file__).parents[2] / "docs"


Run = Callable[..., Any]

NEWEST = _replay.kernels()[-1]["name"]
RULES = f"played by the rules of {kernel_rows.named(NEWEST)}"
OF_7_9 = f"{RULES}: 7.9 is newer than any kernel that pagetape knows"


@pytest.fixture(autouse=True)
def no_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """The row of a run does not depend on them."""
    monkeypatch.setenv("PAGETAPE_ENSEMBLE", "0")


@pytest.fixture
def released(small: Path, tmp_path: Path) -> Callable[[str], Path]:
    """Makes the small tape as a recording of the kernel `release`."""

    def make(release: str) -> Path:
        return rewritten(small, tmp_path / "small.tape", {"kernel": release, "version": ""})

    return make


def numbers(text: str) -> tuple[int, ...]:
    found = [int(number) for number in text.split(".")]
    return tuple(found + [0] * (3 - len(found)))


def test_every_row_of_the_engine_has_an_entry() -> None:
    assert [row.name for row in kernel_rows.known()] == [row["name"] for row in _replay.kernels()]


def test_the_features_of_the_entries_are_those_of_the_engine() -> None:
    for row in kernel_rows.known():
        assert kernel_rows.rules(row.name) == _replay.kernel_rules(row.name)


def test_a_row_lists_no_feature_that_it_does_not_change() -> None:
    """The first row lists what differs from the first values."""
    first = {feature.name: feature.first for feature in kernel_rows.features()}
    last = None
    for row in kernel_rows.known():
        before = row.before or last
        old = kernel_rows.rules(before) if before else first
        assert not [name for name, value in row.features.items() if old[name] == value], row.name
        last = row.name


# The function that a change was read from, and the first release that has it.
@pytest.mark.parametrize(
    ("function", "feature", "before", "since", "values"),
    [
        ("order_to_pindex", "pcp_lists", "5.13.19", "5.14.0", ("PCP_LISTS_3", "PCP_LISTS_15")),
        ("should_proactive_compact_node", "proactive", "5.8.18", "5.9.0",
         ("PROACTIVE_NONE", "PROACTIVE_FROM_5")),
        ("fragmentation_score_wmark", "proactive", "6.15.11", "6.16.0",
         ("PROACTIVE_FROM_5", "PROACTIVE_LEEWAY")),
        ("compaction_capture", "capture", "6.14.6", "6.15.0", ("CAPTURE_SILENT", "CAPTURE_TRACED")),
    ],
)  # fmt: skip
def test_a_feature_changes_with_its_release(
    function: str, feature: str, before: str, since: str, values: tuple[str, str]
) -> None:
    for release, value in zip((before, since), values, strict=True):
        assert _replay.kernel_rules(_replay.kernel_for_release(release))[feature] == value, function


def test_what_a_release_shows() -> None:
    """zoneinfo_show_print, 5.16; enum compact_result, 4.8."""
    shows = kernel_rows.shows
    assert [shows(r, "zoneinfo_boost") for r in ("5.15.9-1", "5.16", "6.1-rc7")] == [
        False,
        True,
        True,
    ]
    assert [shows(r, "compact_results") for r in ("4.7.10", "4.8.0")] == [False, True]
    assert shows(None, "zoneinfo_boost") is None
    assert shows("mine", "zoneinfo_boost") is None


def test_the_fallback_policy_has_the_row_that_the_file_names() -> None:
    policy = next(p for p in _replay.policies() if p["name"] == "fallback")
    default = kernel_rows.default_fallback()
    assert [p["default"] for p in policy["params"] if p["name"] == "kernel"] == [default]
    assert fallback_unit.of_run("6.1.192", ("fallback",)) == fallback_unit.of_row(default)
    assert f"| `fallback` | `kernel={default}` | any row |" in (DOCS / "policies.md").read_text()


def test_the_policy_fallback_takes_what_fallbacks_go_by() -> None:
    """A feature that the engine's fallbacks read is taken with the row, or is one of these."""
    of_the_run = {"boost", "cma_balance", "nofragment_any_order", "reserve_blocks", "zone_locked"}
    code = (DOCS.parent / "replay/model/fallback.c").read_text()
    apart = {feature.name for feature in kernel_rows.features() if not feature.fallback}
    assert apart.intersection(re.findall(r"kernel->(\w+)", code)) == of_the_run


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
        assert row.less_sure.keys() <= changes.keys(), row.name
        for feature, sure in row.less_sure.items():
            assert changes[feature] == kernel_rows.SURE[sure] != kernel_rows.SURE[row.sure]


def test_the_evidence_of_a_row_is_from_its_own_releases() -> None:
    for row in kernel_rows.known():
        assert row.source or row.image or row.note
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
    assert "releases  6.12.29 to 6.12.y, 6.14.7 to 6.14.y\n" in found
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
    of_6_6 = "played by the rules of 6.5 (6.3.0 to 6.6.y): nobody read the source of 6.6"
    mixed = OF_7_9.replace(RULES, "played by the rules of 6.5 (6.3.0 to 6.6.y)")
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
    line = "played by the rules of 6.18 (6.18.y): 7.9 is newer than any kernel that pagetape knows"
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
        "played by the rules of 5.14 (5.14.0 to 5.17.y): nobody read the source of 5.15"
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


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("2.6.31", "2.6.31"),
        ("2.6.33", "2.6.33 to 4.3.y"),
        ("4.20", "4.4.0 to 4.y"),
        ("5.0", "5.0.y"),
        ("5.19", "5.18.0 to 5.y"),
        ("6.1.0", "6.0.0 to 6.1.95, 6.2.y"),
        ("6.12.19", "6.10.0 to 6.12.28"),
        ("6.12.117", "6.12.29 to 6.12.y, 6.14.7 to 6.14.y"),
        ("6.14", "6.13.0 to 6.14.6"),
        ("no such row", ""),
    ],
)
def test_the_releases_of_a_row_in_words(row: str, words: str) -> None:
    assert kernel_rows.releases(row) == words
    assert kernel_rows.named(row) == (f"{row} ({words})" if words else row)


def test_the_words_of_every_row_begin_and_end_where_the_row_does() -> None:
    assert kernel_rows.releases(NEWEST).endswith(" and later")
    for row in kernel_rows.described():
        for span, words in zip(
            row["releases"], kernel_rows.releases(row["name"]).split(", "), strict=True
        ):
            first, _, last = words.removesuffix(" and later").partition(" to ")
            assert kernel_rows.of_release(first.replace("y", "0")) == row["name"]
            assert first.startswith(span["from"])
            assert kernel_rows.of_release((last or first).replace("y", "999")) == row["name"]


SERIES = (
    "names several rows: 6.12.19 (6.12.0 to 6.12.28), 6.12.117 (6.12.29 to 6.12.y);"
    " give one of them, or a full release"
)


@pytest.mark.parametrize("series", ["6.12", "6.12.y", "6.12-amd64", "6.12.0-124.el10", "6.1"])
def test_a_series_with_several_rows_asks_which(
    series: str, small: Path, tmp_path: Path, pagetape: Run
) -> None:
    for words in (
        ("replay", small, "--kernel", series),
        ("validate", small, "--kernel", series),
        ("sweep", small, "--kernel", f"{{5.10,{series}}}", "-o", tmp_path / "matrix"),
    ):
        said = pagetape(*words)
        assert (said.status, said.out, said.err.count("\n")) == (2, "", 1)
        assert f"'{series}' names several rows: " in said.err
        assert series == "6.1" or SERIES in said.err
    assert not (tmp_path / "matrix").exists()
    with pytest.raises(api.Error, match="names several rows"):
        api.open(small).replay(kernel=series)


@pytest.mark.parametrize(
    ("kernel", "row"),
    [
        ("6.12.19", "6.12.19"),
        ("6.12.0", "6.12.19"),
        ("6.12.28-1-amd64", "6.12.19"),
        ("6.12-rc3", "6.12.19"),
        ("6.12.0-rc3", "6.12.19"),
        ("6.12.29", "6.12.117"),
        ("6.12.117+deb13-amd64", "6.12.117"),
        ("6.14", "6.14"),
        ("6.14.7", "6.12.117"),
        ("6.11", "6.12.19"),
        ("6.8.0-45-generic", "6.8"),
        ("5.14.0-427.el9", "5.14"),
        ("2.6.32-754.el6", "2.6.32"),
    ],
)
def test_a_release_or_the_name_of_a_row_is_a_kernel(kernel: str, row: str) -> None:
    assert kernel_rows.asked(kernel) == row


def test_every_row_can_be_asked_for_by_its_name() -> None:
    for row in kernel_rows.known():
        assert kernel_rows.asked(row.name) == row.name


def test_a_name_that_is_also_a_series_says_which_releases_it_is(small: Path, pagetape: Run) -> None:
    said = pagetape("replay", small, "--kernel", "6.14", "--ensemble", 0)
    assert said.err == (
        "pagetape: kernel 6.14 is the row 6.14 (6.13.0 to 6.14.6); the rows of that series:"
        " 6.14 (6.14.0 to 6.14.6), 6.12.117 (6.14.7 to 6.14.y)\n"
    )
    assert pagetape("replay", small, "--kernel", "6.14.7", "--ensemble", 0).err == ""


def test_a_mistyped_kernel_has_a_hint(small: Path, pagetape: Run) -> None:
    said = pagetape("replay", small, "--kernel", "v6.12.117")
    assert said.status == 2 and said.err.count("\n") == 1
    assert "did you mean '6.12.117'?" in said.err


def test_kernels_lists_the_rows_of_a_series(pagetape: Run) -> None:
    for series, rows in (
        ("6.12", ["6.12.19", "6.12.117"]),
        ("6.14", ["6.14", "6.12.117"]),
        ("6.11", ["6.12.19"]),
    ):
        found = [row["name"] for row in pagetape("kernels", series, "--json").json["kernels"]]
        assert found == rows


def test_every_line_about_a_row_names_its_releases(
    small: Path, tmp_path: Path, pagetape: Run
) -> None:
    row, out, page = "6.12.19 (6.10.0 to 6.12.28)", tmp_path / "out.tape", tmp_path / "page.html"
    kernel = ("--kernel", "6.12.5")
    said = pagetape("replay", small, *kernel, "-o", out).out
    assert said.startswith(f"kernel {row}, policy ") and f"with kernel {row}: " in said
    assert f"kernel {row}: " in pagetape("validate", small, *kernel).out
    info = pagetape("info", out)
    assert f"replayed   kernel {row}, mainline" in info.out and f"kernel row {row}" in info.out
    assert f"kernel {row}, mainline" in pagetape("compare", small, out).out
    assert f"{row}, mainline" in pagetape("report", "pcp.traffic", small, out, "--csv").out
    words = ("sweep", small, *kernel, "-o", tmp_path / "matrix", "--html", page)
    assert row in pagetape(*words, "--wide").out and row in page.read_text()
    assert pagetape("html", small, out, "-o", page).status == 0
    assert f"kernel {row}" in page.read_text()
    played = api.open(small).replay(kernel="6.12.5", ensemble=2)
    assert f"with kernel {row}: " in repr(played)
    assert played.json()["kernel_releases"] == "6.10.0 to 6.12.28"
    assert f"kernel {row}" in pagetape("diagnose", out).out


def test_a_tape_whose_release_lacks_the_update_says_so(
    released: Callable[[str], Path], pagetape: Run
) -> None:
    tape = released("6.1.0-44-amd64")
    (line,) = pagetape("info", tape, "--json").json["kernel_warnings"]
    assert line == (
        "played by the rules of 6.1.0 (6.0.0 to 6.1.95, 6.2.y): 6.1.0-44-amd64 lacks the stable"
        " update:"
        " it may be 6.1.0 (6.1.0 to 6.1.95), 6.1.192 (6.1.96 to 6.1.y)"
    )


@pytest.mark.parametrize(
    "text", ["6.1.99999999999999", "4294967302.1", "6.1.-5", "6.1.", "6.1.0 --force", "6.1.3x", ""]
)
def test_a_text_that_is_no_release_is_no_kernel(text: str, small: Path, pagetape: Run) -> None:
    said = pagetape("replay", small, "--kernel", text, "--ensemble", 0)
    assert (said.status, said.err.count("\n")) == (2, 1)
    assert f"'{text}' is no release of a kernel (example: 6.12.0); the rows: 2.6.31" in said.err


def test_a_release_may_have_what_a_distribution_appends() -> None:
    for text in ("6.1", "6.12.y", "6.1-rc7", "6.12.117+deb12-amd64", "5.14.0-427.el9", "4.19.0.1"):
        assert kernel_rows.is_release(text)

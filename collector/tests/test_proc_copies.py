# SPDX-License-Identifier: Apache-2.0
"""Copies of /proc files: of the form that a kernel prints, of one machine, or one clear error."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fuzz_proc import fold, read_all_of
from test_procfs import ZONEINFO_3_2, ZONEINFO_6_12

from conftest import DATA
from pagetape import proc_agree, proc_copies, proc_form, procfs

PROC = DATA / "proc-6.1"
LISTS = ("zoneinfo", "buddyinfo", "pagetypeinfo")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Good copies of a guest, without page flags."""
    target = tmp_path / "proc"
    shutil.copytree(PROC, target, ignore=shutil.ignore_patterns("kpageflags*"))
    return target


def edit(path: Path, change: Callable[[str], str]) -> None:
    old = path.read_text()
    path.write_text(change(old))
    assert path.read_text() != old, "the edit changes nothing"


def refused(directory: Path) -> str:
    with pytest.raises(OSError, match=r".") as error:
        read_all_of(proc_copies.saved(directory))
    assert "\n" not in str(error.value)
    return f"{Path(error.value.filename).name}: {error.value.strerror}"


def tables(directory: Path) -> dict[str, Any]:
    proc = proc_copies.saved(directory)
    proc_agree.check(proc)
    return {stage: proc.rows(stage, n) for n, stage in enumerate(proc.stages)}


def test_good_copies_are_read(copy: Path) -> None:
    read_all_of(proc_copies.saved(copy))
    places = proc_agree.placed(proc_copies.saved(copy))
    assert places.zones[1, "DMA32"] == (51200, 102361)
    assert places.cpus == {0, 1, 2, 3}


@pytest.mark.parametrize("text", [ZONEINFO_6_12, ZONEINFO_3_2], ids=["6.12", "3.2"])
def test_zoneinfo_of_any_kernel_has_its_form(text: str) -> None:
    assert proc_form.checked("zoneinfo", text.encode()) == text


@pytest.mark.skipif(not Path("/proc/zoneinfo").exists(), reason="needs /proc/zoneinfo")
@pytest.mark.parametrize("name", ["zoneinfo", "buddyinfo", "vmstat", "pagetypeinfo", "meminfo"])
def test_this_kernel_has_the_form(name: str) -> None:
    if not os.access(path := Path("/proc") / name, os.R_OK):
        pytest.skip(f"{path} is not readable")
    proc_form.checked(name, path.read_bytes())


# What only a newer kernel, or one with more options, prints.
NEWER = {
    "zoneinfo": ("        spanned  4095\n", "        spanned  4095\n        further  7\n"),
    "vmstat": ("nr_free_pages", "nr_further_of 7\nnr_free_pages"),
    "pagetypeinfo": (
        "\nNumber of blocks type",
        "\nNumber of mixed blocks    Unmovable      Movable\n"
        "Node 0, zone      DMA            0            0\n\nNumber of blocks type",
    ),
}


@pytest.mark.parametrize("name", NEWER)
def test_lines_of_a_newer_kernel_are_accepted(copy: Path, name: str) -> None:
    before = tables(copy)["before"]
    edit(copy / f"{name}.before", lambda text: text.replace(*NEWER[name], 1))
    after = tables(copy)["before"]
    wanted = {"zoneinfo": "zone", "pagetypeinfo": "free_area", "vmstat": "vmstat"}[name]
    assert len(after[wanted]) == len(before[wanted]) + (name == "vmstat")


def test_a_further_order_and_a_further_type(copy: Path) -> None:
    for path in (*copy.glob("buddyinfo.*"), *copy.glob("pagetypeinfo.*")):
        edit(
            path,
            lambda text: "".join(
                line
                + ("    0" if "zone" in line and ("type" in line or "size" not in line) else "")
                + ("   11" if line.startswith("Free") else "")
                + ("  Further" if line.startswith("Number") else "")
                + "\n"
                for line in text.splitlines()
            ),
        )
    assert max(row["page_order"] for row in tables(copy)["before"]["free_area"]) == 11


# A file that went through mail: the same rows, or an error that names the line.


@pytest.mark.parametrize("how", ["mail", "other mail", "terminal"])
@pytest.mark.parametrize("name", LISTS)
def test_a_folded_file_is_unfolded_or_refused(copy: Path, name: str, how: str) -> None:
    good, text = tables(copy), (copy / f"{name}.before").read_text()
    unfolded = 0
    for width in range(16, 120, 3):
        folded = fold(text, width, at_blanks="mail" in how, blanks_stay=how == "mail")
        (copy / f"{name}.before").write_text(folded)
        try:
            found = tables(copy)
        except OSError as e:
            assert f"{name}.before" in str(e.filename) and "line " in str(e.strerror), width
        else:
            assert found == good, width
            unfolded += folded != text
    assert unfolded > 1 or how != "mail"


WRAPPED = """\
Page block order: 9
Pages per block:  512

Free pages count per migrate type at order       0      1      2      3
     4      5      6      7      8      9     10
Node    0, zone   Normal, type    Unmovable      1   5442  25546  12849
  8379   5771   3297   1523    268      0      0
Node    0, zone   Normal, type      Movable 100322 153229 102511  75583
 52007  34284  19259   9465   2014     15      5
Node    0, zone   Normal, type  Reclaimable   4002   4299   2395   3721
  2568   1056    489    177     63      0      0

Number of blocks type     Unmovable      Movable  Reclaimable
HighAtomic      Isolate
Node 0, zone   Normal         3411        27125         1207
1            0
"""


def test_a_pagetypeinfo_that_a_mail_program_folded(tmp_path: Path) -> None:
    (tmp_path / "pagetypeinfo.before").write_text(WRAPPED)
    rows = tables(tmp_path)["before"]
    movable = [row for row in rows["free_area"] if row["migratetype"] == "MOVABLE"]
    assert sum(row["nr_free"] << row["page_order"] for row in movable) == 6_323_168
    counts = {row["migratetype"]: row["nr_blocks"] for row in rows["block_count"]}
    assert counts["HIGHATOMIC"] == 1 and counts["RECLAIMABLE"] == 1207


def test_a_fold_within_a_number_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "pagetypeinfo").write_text(WRAPPED.replace("12849\n  8379", "128\n49   8379"))
    assert refused(tmp_path).startswith("pagetypeinfo: line 6: expected 11 counts, found 12")
    (tmp_path / "pagetypeinfo").unlink()
    (tmp_path / "buddyinfo").write_text("Node 0, zone   Normal     10     2\n3     40     50\n")
    assert refused(tmp_path).startswith("buddyinfo: line 2: a folded line")


@pytest.mark.parametrize("name", LISTS)
def test_a_truncated_file_is_refused(copy: Path, name: str) -> None:
    """At every byte: zoneinfo may only lack zones without pages, which say nothing."""
    good, text = tables(copy), (copy / f"{name}.before").read_text()
    for cut in range(0, len(text) - 1, 41):
        (copy / f"{name}.before").write_text(text[:cut])
        try:
            found = tables(copy)
        except OSError:
            continue
        assert found == good, f"cut at {cut}"


def test_other_line_ends_and_tabs(copy: Path) -> None:
    good = tables(copy)
    for name in (*LISTS, "vmstat", "meminfo", "version"):
        for path in copy.glob(f"{name}.*"):
            path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert tables(copy) == good


DAMAGED = {
    "html": (lambda _: "<html><body>Node 0, zone</body></html>\n", "line 1: expected"),
    "empty": (lambda _: "", "empty; expected a copy of /proc/"),
    "binary": (lambda text: text.replace("e", "\0", 1), "character '\\x00'"),
    "quoted": (
        lambda text: "".join(f"> {line}\n" for line in text.split("\n")),
        "line 1: expected",
    ),
    "localized": (lambda text: text.replace("Node", "Knoten").replace("nr_", "nz_"), "line "),
    "garbage": (lambda _: "garbage\n", "line 1: expected"),
    "tool": (lambda _: "procs -----memory----\n r  b   swpd\n", "line 1: expected"),
    "no end": (lambda text: text[:-1], "the file ends within this line"),
}


@pytest.mark.parametrize("name", [*LISTS, "vmstat"])
@pytest.mark.parametrize("damage", DAMAGED)
def test_a_file_that_is_no_copy_names_line_and_form(copy: Path, name: str, damage: str) -> None:
    change, why = DAMAGED[damage]
    edit(copy / f"{name}.before", change)
    said = refused(copy)
    assert said.startswith(f"{name}.before: ") and why in said


def test_utf_16_is_named(copy: Path) -> None:
    path = copy / "vmstat.before"
    path.write_text(path.read_text(), "utf-16")
    assert "UTF-16" in refused(copy)


def test_a_free_list_that_one_zone_lacks(copy: Path) -> None:
    edit(
        copy / "pagetypeinfo.before",
        lambda text: "".join(
            line
            for line in text.splitlines(keepends=True)
            if not ("zone    DMA32, type      Movable" in line and line.startswith("Node    0"))
        ),
    )
    assert "type Movable is not in all zones alike" in refused(copy)


# Names and places.


def test_an_empty_directory_names_what_is_expected(tmp_path: Path) -> None:
    assert refused(tmp_path).endswith(
        "no copies of /proc files: expected zoneinfo.before and zoneinfo.after, or plain zoneinfo,"
        " and others beside them; found nothing"
    )
    (tmp_path / "notes.md").write_text("x")
    assert refused(tmp_path).endswith("found notes.md")


@pytest.mark.parametrize(
    "name", ["zoneinfo.1", "zoneinfo-before", "zoneinfo.old.txt", "zoneinfo.gz"]
)
def test_other_names_are_named(copy: Path, name: str) -> None:
    (copy / "zoneinfo.after").unlink()
    (copy / "zoneinfo.before").rename(copy / name)
    assert f"found {name}: rename" in refused(copy)


@pytest.mark.parametrize(
    "place",
    ["{stage}/{name}", "{stage}/proc/{name}", "proc/{name}.{stage}", "{name}.{stage}.txt"],
)
def test_other_layouts_are_read(copy: Path, tmp_path: Path, place: str) -> None:
    good = tables(copy)
    for path in copy.glob("*.*"):
        name, stage = path.name.split(".")
        target = tmp_path / "other" / place.format(name=name, stage=stage)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    assert tables(tmp_path / "other") == good


def test_two_copies_of_one_file(copy: Path) -> None:
    (copy / "before").mkdir()
    shutil.copy(copy / "vmstat.before", copy / "before" / "vmstat")
    assert "vmstat.before and before/vmstat are two copies" in refused(copy)


def test_a_file_without_a_stage_beside_others_with_one(copy: Path) -> None:
    (copy / "zoneinfo.before").rename(copy / "zoneinfo")
    assert refused(copy).startswith("zoneinfo: neither .before nor .after, as ")


def test_copies_of_the_end_only(copy: Path) -> None:
    for path in copy.glob("*.before"):
        path.unlink()
    assert "no copy from before the trace" in refused(copy)


# One machine.


def swap(copy: Path, name: str) -> None:
    one, other = copy / f"{name}.before", copy / f"{name}.after"
    one.rename(copy / "x")
    other.rename(one)
    (copy / "x").rename(other)


def test_copies_in_the_wrong_order(copy: Path) -> None:
    swap(copy, "vmstat")
    assert "vmstat.after is older than vmstat.before, or of another machine" in refused(copy)


def test_copies_in_the_wrong_order_without_a_vmstat(copy: Path) -> None:
    for path in copy.glob("vmstat*"):
        path.unlink()
    read_all_of(proc_copies.saved(copy))
    for name in LISTS:
        swap(copy, name)
    said = refused(copy)
    assert "zoneinfo.after is older than zoneinfo.before, or of another machine" in said
    assert "counters fell, as numa_hit of Node 0, zone DMA from" in said


@pytest.mark.parametrize("name", ["hostname", "boot_id", "cmdline"])
@pytest.mark.parametrize("data", [b"\xff\xfe\x00\x80", b"one\ntwo\n", b"\x1b[2J\n", b"x" * 70_000])
def test_a_fact_that_is_no_line_of_text(copy: Path, name: str, data: bytes) -> None:
    (copy / f"{name}.after").write_bytes(data)
    assert refused(copy).startswith(f"{name}.after: expected one line of text, at most ")


def test_a_boot_id_is_one_word(copy: Path) -> None:
    (copy / "boot_id.before").write_text("no such file\n")
    assert refused(copy) == "boot_id.before: line 1: expected one word, found 'no such file'"


def test_a_copy_that_is_a_link_to_nothing(copy: Path) -> None:
    (copy / "vmstat.before").unlink()
    (copy / "vmstat.before").symlink_to("nowhere")
    assert refused(copy) == "vmstat.before: cannot be read: No such file or directory"


@pytest.mark.parametrize("name", ["zoneinfo", "buddyinfo"])
def test_a_zone_that_another_file_lacks(copy: Path, name: str) -> None:
    edit(
        copy / f"{name}.before",
        lambda text: text.replace("Node 1, zone    DMA32", "Node 1, zone   HighMem"),
    )
    assert "not of one machine" in refused(copy) and "Node 1, zone DMA32" in refused(copy)


ANOTHER = {
    "start": ("zoneinfo.after", "start_pfn:           51200", "start_pfn:           61200"),
    "size": ("zoneinfo.after", "present  51161", "present  51160"),
    "release": ("version.before", "", "Linux version 5.10.0-8-amd64 (x@y)\n"),
    "boot": ("boot_id.before", "", "1234\n"),
    "memory": ("meminfo.before", "MemTotal:         3", "MemTotal:         5"),
    "node": ("nodes", "node1 cpus 2-3", "node2 cpus 2-3"),
    "cpu": ("nodes", "node1 cpus 2-3", "node1 cpus 2"),
}
WHY = {
    "start": "zone DMA32 has 51,161 pages from pfn 51,200",
    "size": "zone DMA32 has",
    "release": "version.before and version.after differ",
    "boot": "boot_id.before and boot_id.after differ",
    "memory": "of MemTotal in meminfo",
    "node": "has node 1, which the file nodes lacks",
    "cpu": "has CPU 3, which the file nodes lacks",
}


@pytest.mark.parametrize("what", WHY)
def test_the_copies_of_two_machines(copy: Path, what: str) -> None:
    name, old, new = ANOTHER[what]
    if old:
        edit(copy / name, lambda text: text.replace(old, new))
    else:
        (copy / name).write_text(new)
        (copy / "boot_id.after").write_text("5678\n")
    said = refused(copy)
    assert said.startswith("proc: not of one machine: ") and WHY[what] in said


def test_memory_may_be_plugged_in_during_one_boot(copy: Path) -> None:
    edit(copy / "zoneinfo.after", lambda text: text.replace("present  51161", "present  51160"))
    assert "add boot_id.before and boot_id.after" in refused(copy)
    for stage in ("before", "after"):
        (copy / f"boot_id.{stage}").write_text("1234\n")
    read_all_of(proc_copies.saved(copy))


def test_more_free_pages_than_pages(copy: Path) -> None:
    for stage in ("before", "after"):
        edit(
            copy / f"buddyinfo.{stage}",
            lambda text: re.sub(r"(Node 1, zone +DMA32 +)\d+", r"\g<1>99999", text),
        )
    assert "pages in all in zoneinfo.before" in refused(copy)


def test_another_number_of_orders(copy: Path) -> None:
    edit(
        copy / "buddyinfo.before",
        lambda text: "".join(f"{line} 0\n" for line in text.splitlines()),
    )
    assert "12 orders in buddyinfo.before and 11 orders in pagetypeinfo.before" in refused(copy)


def test_compressed_texts_are_checked_as_well(copy: Path) -> None:
    text = (copy / "vmstat.before").read_bytes()
    (copy / "vmstat.before").unlink()
    with pa.output_stream(str(copy / "vmstat.before.zst"), compression="zstd") as out:
        out.write(text.replace(b"nr_free_pages ", b"nr_free_pages: "))
    assert refused(copy).startswith("vmstat.before.zst: line 1: expected 'NAME NUMBER'")


def test_the_live_parsers_take_what_they_know() -> None:
    """procfs itself skips other lines: a recorder must not fail on a new kernel."""
    assert procfs.parse_buddyinfo("garbage\n") == []

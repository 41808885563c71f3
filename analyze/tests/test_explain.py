# SPDX-License-Identifier: Apache-2.0
"""`pagetape explain` and `pagetape gfp`, on messages made in the kernel's formats.

analyze/lab/kernel_messages.py makes them from figures around the mark that the kernel applies, and
damage_messages.py damages them. fuzz_messages.py does the same to many more.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import damage_messages
import fuzz_messages
import kernel_messages
import pytest

from pagetape import _replay
from pagetape.explaining import explanation, gfp, words
from pagetape.explaining.verdict import CLASSES
from pagetape.tapes import kernel_rows

Run = Callable[..., Any]

PROC = Path(__file__).parents[2] / "collector/tests/data/proc-6.1"
DAMAGED = 300
WANTED = ("below_min", "no_block_of_order", "cannot_tell", "memcg_limit")


def explained(text: str, kernel: str | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = explanation.of_logs([("log", io.BytesIO(text.encode()))], kernel)[
        "reports"
    ]
    return found


def text_of(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def whole(want: str = "below_min", seed: int = 1, like: str = "5.10.220") -> list[str]:
    form = next(one for one in kernel_messages.FORMATS if one.release == like)
    return kernel_messages.make(Random(seed), form, want).lines


# ---- classes


@pytest.mark.parametrize("form", kernel_messages.FORMATS, ids=lambda form: form.release)
def test_each_class_is_found_in_the_format_of_each_release(form: kernel_messages.Format) -> None:
    wanted = [*WANTED, *(["cma_only"] if form.cma else [])]
    if form.prints_reserve:
        wanted += ["highatomic_reserve", "no_block_of_usable_type"]
    for seed in range(5):
        for want in wanted:
            message = kernel_messages.make(Random(seed), form, want)
            (found,) = explained(text_of(message.lines))
            assert found["class"] == want, (seed, found)
            assert found["sure"] is (want != "cannot_tell")
            assert found["task"] == message.task
            assert found["kernel"] == form.release


@pytest.mark.parametrize("prefix", damage_messages.PREFIXES, ids=lambda one: one.__name__)
def test_a_prefix_changes_nothing(prefix: Callable[..., list[str]]) -> None:
    for seed in range(4):
        message = kernel_messages.make(Random(seed))
        bare = explained(text_of(message.lines))
        found = explained(text_of(prefix(Random(seed), message.lines)))
        for one in (*bare, *found):
            del one["line"]  # a prefix may have lines of its own
        assert found == bare


@pytest.mark.parametrize("mark", ["> ", ">> ", "> > ", "\t"])
def test_a_quoted_message_is_read(mark: str) -> None:
    lines = whole()
    assert explained(text_of([mark + line for line in lines])) == explained(text_of(lines))


@pytest.mark.parametrize("width", [60, 72, 76])
def test_a_message_folded_by_a_mail_is_read(width: int) -> None:
    import textwrap

    lines = [f"[  100.000000] {line}" for line in whole()]
    folded = [
        piece for line in lines for piece in textwrap.wrap(line, width, break_on_hyphens=False)
    ]
    (found,) = explained(text_of(folded))
    assert (found["class"], found["sure"]) == ("below_min", True)
    assert found["zones"] == explained(text_of(lines))[0]["zones"]


@pytest.mark.parametrize("width", [80, 120, 200])
def test_a_message_folded_by_a_terminal_is_read(width: int) -> None:
    lines = [f"[  100.000000] {line}" for line in whole()]
    folded = [line[at : at + width] for line in lines for at in range(0, len(line), width)]
    (found,) = explained(text_of(folded))
    assert found["zones"] == explained(text_of(lines))[0]["zones"]


@pytest.mark.parametrize(
    "prefix",
    [
        "Mon Jan  1 00:00:{n:02} 2018 kern.warn kernel: [  74.{n:06}] ",
        "\x1b[32m[  74.{n:06}] \x1b[0m\x1b[33m",
        "[12:34:{n:02}] ",
        "&gt; [  74.{n:06}] ",
        "kern  :warn  : [  74.{n:06}] ",
        "{n}. <4>[  74.{n:06}] ",
        "<4>[  74.{n:06} s][pid:11,cpu5,db]db: ",
        "[  74.{n:06}] [03-19 10:05:{n:02}.172] ",
        "| 07-13 10:05:{n:02}.172 ",
        "1704448800.{n:06} web1 kernel: ",
        "2024/01/05 10:00:{n:02} [  74.{n:06}] ",
        "{n:6d}\t[  74.{n:06}] ",
        "qemu-1: 10:00:{n:02}.123 -> [  74.{n:06}] ",
        "6.1.0,4,{n},{n},-,ncfrag=0/99;",
    ],
)
def test_a_log_as_somebody_pasted_it_is_read(prefix: str) -> None:
    lines = whole()
    text = text_of([prefix.format(n=n) + line for n, line in enumerate(lines)])
    assert explained(text) == explained(text_of(lines))


@pytest.mark.parametrize(
    "around",
    [
        '"2024-01-05 10:00:00","web1","{}"',
        'ts=2024-01-05T10:00:00Z unit=kernel msg="{}"',
        "|7|[  74.000007] {}|",
        "b'[  74.000007] {}\\n'",
        '{{"version":"1.1","short_message":"{}","level":4}}',
        '{{"textPayload":"[  74.000007] {}","timestamp":"2024-01-05T10:00:00Z"}}',
        "<tr><td>7</td><td>[  74.000007] {}</td></tr>",
    ],
)
def test_a_message_with_something_around_it_is_read(around: str) -> None:
    lines = whole()
    assert explained(text_of([around.format(line) for line in lines])) == explained(text_of(lines))


def test_a_message_in_fragments_is_read() -> None:
    """Each number of a reserve and each block of a list on a line of its own, as some consoles."""
    import re

    pieces: list[str] = []
    for line in whole():
        if line.startswith("lowmem_reserve") or "*4kB" in line:
            head, *rest = re.split(r"(?<=:) ", line)
            parts = " ".join(rest).replace(" (", "\n(").replace(" = ", "\n= ")
            blocks = re.sub(r" (?=\d)", "\n", parts.replace("= ", "=_")).replace("=_", "= ")
            node = re.match(r"(Node \d+) (.*)", head)
            pieces += [node[1], node[2]] if node else [head]
            pieces += blocks.split("\n")
        else:
            pieces.append(line)
    assert len(pieces) > len(whole()) + 30
    stamped = [f"[  100.000000] {piece}" for piece in pieces]
    (found,) = explained(text_of(stamped))
    assert (found["class"], found["sure"]) == ("below_min", True)
    assert found["zones"] == explained(text_of(whole()))[0]["zones"]


def test_a_mail_in_quoted_printable_is_read() -> None:
    import quopri

    text = text_of([f"> [  100.000000] {line}" for line in whole()])
    encoded = quopri.encodestring(text.encode()).decode()
    assert "=3D" in encoded
    (found,) = explained(encoded)
    assert found["zones"] == explained(text)[0]["zones"]


def test_a_list_without_its_sum_is_whole_if_it_fits_the_zone() -> None:
    lines = [
        line.partition(" = ")[0] + " =" if "*4kB" in line else line
        for line in whole("no_block_of_order")
    ]
    (found,) = explained(text_of(lines))
    assert (found["class"], found["sure"]) == ("no_block_of_order", True)


def test_a_zone_without_its_reserve_fails_if_it_fails_without_any() -> None:
    lines = [line for line in whole() if not line.startswith("lowmem_reserve")]
    (found,) = explained(text_of(lines))
    assert found["class"] == "below_min"
    assert {"lowmem_reserve"} == {term for zone in found["zones"][:2] for term in zone["bounds"]}
    assert all(zone["passes"] is not True for zone in found["zones"])


@pytest.mark.parametrize("mask", ["0x20", "0xd0", "0x201da"])
def test_a_mask_of_an_old_kernel_is_no_cut_one(mask: str) -> None:
    (found,) = explained(f"a: page allocation failure: order:0, mode:{mask}\n")
    assert not found["doubts"] and found["gfp"][0].startswith("GFP_")


def test_vmalloc_that_asked_for_no_pages_before_its_header() -> None:
    lines = whole("no_block_of_order")
    (found,) = explained(text_of(["vmalloc: allocation failure: 17178820608 bytes", *lines]))
    assert (found["class"], found["sure"]) == ("vmalloc_space_or_other", False)


def test_a_mask_without_its_end_is_read_by_its_names() -> None:
    text = (
        "a invoked oom-killer: gfp_mask=0x62****(GFP_HIGHUSER_MOVABLE|__GFP_ZERO), order=0,\n"
        "Mem-Info:\n"
    )
    (found,) = explained(text)
    assert found["gfp"] == ["GFP_HIGHUSER_MOVABLE", "__GFP_ZERO"]


def test_a_zone_above_the_request_is_not_missed_on_32_bits() -> None:
    """From 6.1 on, no zone above that of the mask is printed: index 2 is HighMem, not Normal."""
    text = text_of(
        [
            "a: page allocation failure: order:0, mode:0xcc0(GFP_KERNEL), nodemask=(null)",
            "CPU: 1 PID: 40 Comm: a Not tainted 6.8.9 #1",
            "[effe5e60] [be99573c] setup_rx+0x40/0x144",
            "Mem-Info:",
            "DMA free:1680kB boost:0kB min:7548kB low:8408kB high:9268kB reserved_highatomic:0KB"
            " present:786432kB managed:746656kB free_cma:0kB",
            "lowmem_reserve[]: 0 0 1280 1280",
            "DMA: 420*4kB (UM) 0*8kB = 1680kB",
        ]
    )
    (found,) = explained(text)
    assert (found["class"], found["sure"]) == ("below_min", True)
    assert found["zones"][0]["lowmem_reserve"] == 0


def test_damaged_messages_never_get_a_wrong_class_that_is_sure() -> None:
    for seed in range(DAMAGED):
        messages, text = fuzz_messages.log(seed)
        reports = explained(text)
        assert not fuzz_messages.judged(messages, reports)["wrong"], seed
        assert all("\n".join(words.lines(one)) for one in reports)
        assert {one["class"] for one in reports} <= set(CLASSES)


def test_two_callers_at_once_are_two_reports() -> None:
    """Where the log has the caller of each line, both are as sure as alone."""
    one, other = whole("below_min", 3), whole("no_block_of_order", 4)
    mixed = [
        line
        for pair in zip(
            [f"[  1.000000][   T11] {line}" for line in one],
            [f"[  1.000000][  C1] {line}" for line in other],
            strict=False,
        )
        for line in pair
    ]
    mixed += [f"[  1.000000][   T11] {line}" for line in one[len(other) :]]
    mixed += [f"[  1.000000][  C1] {line}" for line in other[len(one) :]]
    found = sorted(explained(text_of(mixed)), key=lambda one: str(one["class"]))
    assert [(one["class"], one["sure"]) for one in found] == [
        ("below_min", True),
        ("no_block_of_order", True),
    ]


@pytest.mark.parametrize("zone", ["Node 0 Normal free", "Node 0 DMA32 free"])
def test_a_missing_zone_line_is_named(zone: str) -> None:
    lines = [line for line in whole() if not line.startswith(zone)]
    (found,) = explained(text_of(lines))
    assert not found["sure"]
    assert any(zone.removesuffix(" free") in text for text in found["missing"])


def test_a_cut_zone_line_gives_no_figure() -> None:
    """`min:98` of `min:984kB` is no watermark."""
    lines = [line.partition("kB low")[0] if "Normal free" in line else line for line in whole()]
    (found,) = explained(text_of(lines))
    assert found["class"] == "cannot_tell"
    normal = next(zone for zone in found["zones"] if zone["zone"] == "Normal")
    assert (normal["free"], normal["mark"], normal["passes"]) == (None, None, None)


def test_a_state_that_passes_is_not_the_one_that_failed(pagetape: Run, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(text_of(whole("cannot_tell")))
    said = pagetape("explain", path)
    assert said.status == 0
    assert "the printed state passes, so it is not the state that failed" in said.out


def test_the_log_of_the_documentation_is_made() -> None:
    log = Path(__file__).parents[1] / "demo/dmesg.txt"
    assert log.read_text() == kernel_messages.example()


def test_a_word_of_another_cpu_is_no_digit_of_an_order() -> None:
    (found,) = explained("[    1.000000] a: page allocation failure: order:30*1024kB\n")
    assert found["order"] is None


def test_a_zone_without_pages_of_the_allocator_fails() -> None:
    """GFP_DMA in a kdump kernel, whose low memory is not the allocator's."""
    header = "a: page allocation failure: order:5, mode:0xcc1(GFP_KERNEL|GFP_DMA)\nMem-Info:\n"
    zone = "Node 0 {} free:{}kB min:{}kB low:9kB high:9kB present:{}kB managed:{}kB\n"
    reserve = "lowmem_reserve[]: 0 0 0 0 0\n"
    text = header + zone.format("DMA", 0, 0, 640, 0) + reserve
    (found,) = explained(text + zone.format("DMA32", 9000, 8, 9000, 9000) + reserve)
    assert [one["zone"] for one in found["zones"]] == ["DMA"]
    assert found["class"] == "below_min" and "managed: 0" in found["doubts"][0]


# ---- other failures


@pytest.mark.parametrize(
    ("line", "name", "sure"),
    [
        (
            "a invoked oom-killer: gfp_mask=0x0(), order=0, oom_score_adj=0",
            "not_an_allocator_failure",
            True,
        ),
        (
            "a invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=-1, oom_score_adj=0",
            "not_an_allocator_failure",
            True,
        ),
        (
            "vmap allocation for size 20480 failed: use vmalloc=<size> to increase size",
            "vmalloc_space_or_other",
            True,
        ),
        (
            "a: vmalloc error: size 409600, vm_struct allocation failed, mode:0xcc0(GFP_KERNEL)",
            "vmalloc_space_or_other",
            False,
        ),
        (
            "a: vmalloc: allocation failure: 8192 bytes, mode:0x14000c0(GFP_KERNEL)",
            "vmalloc_space_or_other",
            True,
        ),
        (
            "a: vmalloc: allocation failure, allocated 8 of 9 bytes, mode:0x14000c0(GFP_KERNEL)",
            "cannot_tell",
            False,
        ),
        ("cma: cma_alloc: alloc failed, req-size: 64 pages, ret: -16", "cannot_tell", False),
        ("SLUB: Unable to allocate memory on node -1, gfp=0xcc0(GFP_KERNEL)", "cannot_tell", False),
        ("a: page allocation stalls for 10008ms, order:0, mode:0x24200ca", "cannot_tell", False),
        ("Memory cgroup out of memory: Killed process 9 (a) total-vm:9kB", "memcg_limit", True),
    ],
)
def test_a_failure_that_is_not_of_a_watermark(line: str, name: str, sure: bool) -> None:
    (found,) = explained(f"[    1.000000] {line}\n")
    assert (found["class"], found["sure"]) == (name, sure)
    assert found["why"] or found["missing"]


@pytest.mark.parametrize(
    ("line", "killed"),
    [
        ("Killed process 17 (java)", "java (17)"),
        (
            "Killed process 17, UID 1000, (java) total-vm:9kB, anon-rss:5kB, file-rss:0kB",
            "java (17), which held 5 kB anon, 0 kB file",
        ),
        (
            "Out of memory: Killed process 17 (a (b) c) total-vm:9kB, anon-rss:1234kB, UID:0",
            "a (b) c (17), which held 1,234 kB anon",
        ),
        ("Out of memory: Kill process 17 (java) score 77 or sacrifice child", None),
    ],
)
def test_the_killed_process_is_named_apart_from_the_one_that_asked(
    line: str, killed: str | None
) -> None:
    head = "cron invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0"
    (found,) = explained(text_of([head, "CPU: 1 PID: 9 Comm: cron Not tainted 6.1.0", line]))
    said = words.lines(found)
    assert said[0] == "log:1: OOM kill invoked by cron"
    assert [one for one in said if "  killed" in one] == [f"  killed    {killed}"] * bool(killed)


def test_the_cache_of_a_cgroup_is_its_limit() -> None:
    text = (
        "SLUB: Unable to allocate memory on node -1, gfp=0xa20(GFP_ATOMIC)\n"
        "  cache: inode_cache(17:web), object size: 600, buffer size: 608, default order: 3\n"
    )
    (found,) = explained(text)
    assert (found["class"], found["sure"]) == ("memcg_limit", True)


def test_a_slab_line_below_a_failure_is_no_second_report() -> None:
    lines = [*whole(), "SLUB: Unable to allocate memory on node -1, gfp=0xa20(GFP_ATOMIC)"]
    assert len(explained(text_of(lines))) == 1


def test_reports_and_suppressed_ones_are_counted() -> None:
    lines = [
        *whole(),
        "warn_alloc: 12 callbacks suppressed",
        *whole(seed=2),
        "** 9 printk messages dropped **",
    ]
    found = explanation.of_logs([("log", io.BytesIO(text_of(lines).encode()))])
    assert [one["suppressed"] for one in found["reports"]] == [0, 12]
    assert (found["suppressed"], found["dropped_messages"]) == (12, 9)


def test_more_reports_than_anybody_reads_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explanation, "MOST", 2)
    lines = [line for seed in range(5) for line in whole(seed=seed)]
    found = explanation.of_logs([("log", io.BytesIO(text_of(lines).encode()))])
    assert (len(found["reports"]), found["more_reports"]) == (2, 3)


# ---- kernels and masks


def test_fields_of_another_release_make_a_doubt() -> None:
    """As where a header stands above the memory state of another machine."""
    lines = [line.replace("5.10.220", "6.12.0") for line in whole()]
    (found,) = explained(text_of(lines))
    assert found["doubts"] == ["6.12.0 does not print: free without boost"]
    lines = [line.replace("6.18.3", "5.4.0") for line in whole(like="6.18.3")]
    (found,) = explained(text_of(lines))
    assert any("5.4.0 does not print: zspages" in text for text in found["doubts"])


def test_without_a_release_the_fields_show_it() -> None:
    lines = [line for line in whole(like="6.18.3") if "Comm:" not in line]
    (found,) = explained(text_of(lines))
    assert (found["kernel"], found["class"], found["sure"]) == ("from 6.18", "below_min", True)


def test_the_kernel_that_the_user_names_counts() -> None:
    """By the check per order of 3.x, no block is left; from 4.4 on one block is enough."""
    text = text_of(
        [
            "a: page allocation failure: order:1, mode:0x4020",
            "Mem-Info:",
            "Normal free:5000kB min:5604kB low:7004kB high:8404kB present:90000kB managed:80000kB",
            "lowmem_reserve[]: 0 0",
            "Normal: 1236*4kB 7*8kB 0*16kB 0*32kB 0*64kB 0*128kB 0*256kB 0*512kB = 5000kB",
        ]
    )
    assert explained(text, "3.10.0")[0]["class"] == "no_block_of_order"
    found = explained(text.replace("0x4020", "0x2084020"), "4.8.0")[0]
    assert found["state_passes"]


@pytest.mark.parametrize(
    "text",
    [
        *("2.6.31", "2.6.38-rc6", "3.10.108", "4.3", "4.4-rc1", "5.10.2", "6.1.95", "6.1.96"),
        *("6.1.0-44-amd64", "6.12.28", "6.12.29", "6.14.7", "6.15", "7.3.4", "9.9"),
    ],
)
def test_the_row_of_a_release_is_that_of_the_engine(text: str) -> None:
    assert kernel_rows.of_release(text) == _replay.kernel_for_release(text)


def test_a_release_before_the_oldest_row_has_none() -> None:
    assert kernel_rows.of_release("2.6.22") is None
    with pytest.raises(_replay.EngineError):
        _replay.kernel_for_release("2.6.22")


@pytest.mark.parametrize("form", kernel_messages.FORMATS, ids=lambda form: form.release)
def test_the_usual_masks_have_their_names(form: kernel_messages.Format) -> None:
    number = kernel_rows.number(form.release)
    assert number
    era = gfp.era_of(number)
    for name, mask in kernel_messages.MASKS[form.masks].items():
        flags, unknown = era.flags(mask)
        assert (gfp.names(flags, number), unknown) == ([f"GFP_{name}"], 0)
        assert gfp.of_names(f"GFP_{name}", number) == flags
        assert era in gfp.plausible(mask)


def test_gfp_lists_a_mask_by_era(pagetape: Run) -> None:
    said = pagetape("gfp", "0x2084020", "--json")
    eras = json.loads(said.out)["eras"]
    assert [one["gfp"] for one in eras if one["usual"]] == [["GFP_ATOMIC", "__GFP_COMP"]]
    said = pagetape("gfp", "0x2084020")
    assert "GFP_ATOMIC|__GFP_COMP" in said.out
    said = pagetape("gfp", "GFP_KERNEL")
    assert said.status == 2
    assert "'GFP_KERNEL' is no gfp mask (example: 0x2084020)" in said.err


# ---- the command


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_log_that_powershell_wrote(encoding: str, pagetape: Run, tmp_path: Path) -> None:
    path = tmp_path / "log"
    bom = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}.get(encoding, b"")
    path.write_bytes(bom + text_of(whole()).replace("\n", "\r\n").encode(encoding))
    (one,) = json.loads(pagetape("explain", path, "--json").out)["reports"]
    assert (one["class"], one["sure"]) == ("below_min", True)


def test_explain_reads_files_and_stdin(pagetape: Run, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(text_of(whole()))
    said = pagetape("explain", path)
    assert said.status == 0
    assert f"{path}:1: page allocation failure" in said.out or "OOM kill" in said.out
    assert "below_min" in said.out and len(said.out.splitlines()) <= 12
    said = subprocess.run(
        [sys.executable, "-m", "pagetape", "explain", "-", "--json"],
        input=path.read_bytes(),
        capture_output=True,
        check=True,
    )
    assert json.loads(said.stdout)["reports"][0]["class"] == "below_min"


def test_explain_loads_neither_duckdb_nor_the_engine(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(text_of(whole()))
    code = (
        f"import sys; from pagetape import cli; cli.run(['explain', {str(path)!r}]);"
        "print({'duckdb', 'pyarrow', 'rich', 'pagetape._replay'} & set(sys.modules))"
    )
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert said.stdout.splitlines()[-1] == "set()"


def test_a_log_without_a_failure(pagetape: Run, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("[    0.000000] Linux version 6.1.0\n" * 3)
    said = pagetape("explain", path)
    assert (said.status, said.out) == (0, "no report of a memory failure in 3 messages\n")


def test_bad_usage_of_explain(pagetape: Run, tmp_path: Path, golden: Path) -> None:
    assert pagetape("explain").status == 2
    said = pagetape("explain", tmp_path / "none")
    assert (said.status, said.err) == (
        1,
        f"pagetape: {tmp_path / 'none'}: No such file or directory\n",
    )
    assert "'x' is no release of a kernel" in pagetape("explain", "-", "--kernel", "x").err
    tape = tmp_path / "a.tape"
    tape.symlink_to(golden)
    assert "failed request" in pagetape("explain", tape).out


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00" * 100_000,
        bytes(range(256)) * 500,
        b"Normal free:1kB " * 100_000,
        b"a invoked oom-killer: " * 20_000,
        b"page allocation failure: order:" + b"9" * 5000 + b", mode:0x" + b"f" * 5000,
        b"Node 99999999999999999999 DMA free:1kB min:1kB low:1kB high:1kB\nlowmem_reserve[]: 1 2",
        b"Normal: " + b"1*4kB " * 50_000 + b"= 4kB\n",
        b"> " * 100_000 + b"x",
        b"a: page allocation failure: order:4000000000, mode:0xcc0(GFP_KERNEL)\n"
        b"Normal free:9kB min:1kB low:1kB high:1kB present:9kB\nNormal: 1*4kB (U) = 4kB\n",
    ],
    ids=range(10),
)
def test_hostile_logs_end_in_an_answer(data: bytes) -> None:
    found = explanation.of_logs([("log", io.BytesIO(data))])
    for one in found["reports"]:
        assert words.lines(one)
        assert not one["sure"] or one["class"] == "cannot_tell"


# ---- /proc


def test_a_request_in_a_state_of_proc(pagetape: Run) -> None:
    said = pagetape("explain", "--proc", PROC, "--order", "9", "--gfp", "GFP_KERNEL", "--json")
    (found,) = json.loads(said.out)["reports"]
    assert found["class"] == "no_block_of_order"
    assert {zone["passes"] for zone in found["zones"]} == {False}
    (found,) = json.loads(pagetape("explain", "--proc", PROC, "--json").out)["reports"]
    assert found["class"] == "passes"


def test_a_request_that_is_none(pagetape: Run) -> None:
    said = pagetape("explain", "--proc", PROC, "--gfp", "GFP_FAST")
    assert said.status == 2
    assert "'GFP_FAST' has a name that is no gfp flag" in said.err

# SPDX-License-Identifier: Apache-2.0
"""Names on a tape cannot command a terminal or a browser, nor pass for lines of pagetape."""

import html
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from pagetape import answer
from pagetape.commands import top
from pagetape.schemas.tape import Tape, Writer

Run = Callable[..., Any]

# A terminal sequence in 7 and in 8 bits, a line of its own, a reversed text, a mark-up, and others.
EVIL = "\x1b[31m\x9b2J\nlost 0\r\u202ex\u2066\u2028\x7f<b>\0"
SHOWN = r"\x1b[31m\x9b2J\nlost 0\r\u202ex\u2066\u2028\x7f<b>"

NAMED = {"comm", "cgroup", "function", "module", "instance", "why"}


def with_names(source: Path, target: Path) -> Path:
    """The tape `source` again, with an evil text in every name."""
    facts = Tape(source).facts | {"host": EVIL, "arch": EVIL, "boot_id": EVIL, "source": EVIL}
    with Writer(target, facts) as writer:
        for name in Tape(source).tables:
            for batch in Tape(source).batches(name):
                for i, field in enumerate(batch.schema):
                    if field.name in NAMED and pa.types.is_string(field.type):
                        evil = pa.array([EVIL] * len(batch), pa.utf8())
                        batch = batch.set_column(i, field, evil)
                writer.write(name, batch)
    return target


@pytest.fixture
def evil(golden: Path, tmp_path: Path) -> Path:
    """The golden tape with evil names, its own file name among them."""
    return with_names(golden, tmp_path / f"{EVIL.replace('/', '').replace(chr(0), '')}.tape")


def harmless(text: str) -> bool:
    return text.replace("\n", "").isprintable()


COMMANDS = {
    "info": ("info",),
    "compare": ("compare", "golden"),
    "sql": ("sql",),
    "columns": ("sql", 'SELECT 1 AS "a\x1b[31m\nb"'),
    "error": ("sql", "SELECT error('\x1b[31m' || comm) FROM task"),
    "unknown": ("sql", "SELECT \x1b[31m"),
    "replay": ("replay",),
    "validate": ("validate", "--explain"),
    "sweep": ("sweep", "-o", "out"),
    "import": ("import", "--private", "drop", "-o", "out"),
    "archive": ("archive", "-o", "out"),
    "alloc.by_task": ("report", "alloc.by_task"),
    "alloc.by_cgroup": ("report", "alloc.by_cgroup"),
    "extfrag.by_task": ("report", "extfrag.by_task"),
    "extfrag.by_stack": ("report", "extfrag.by_stack"),
    "alloc.by_stack": ("report", "alloc.by_stack"),
    "explain": ("explain",),
}


@pytest.mark.parametrize("args", COMMANDS.values(), ids=COMMANDS)
def test_no_name_reaches_a_terminal_raw(
    args: tuple[str, ...], evil: Path, golden: Path, tmp_path: Path, pagetape: Run
) -> None:
    words: list[object] = [{"golden": golden, "out": tmp_path / "out"}.get(w, w) for w in args]
    said = pagetape(*words, evil, *(["SELECT * FROM task"] if args == ("sql",) else []))
    assert said.out or said.err
    assert harmless(said.out), ascii(said.out)
    assert harmless(said.err), ascii(said.err)


def test_a_name_stays_in_its_line(evil: Path, golden: Path, pagetape: Run) -> None:
    plain, found = pagetape("info", golden).out, pagetape("info", evil).out
    assert SHOWN in found
    assert found.count("\n") == plain.count("\n")
    plain, found = (pagetape("report", "alloc.by_task", t).out for t in (golden, evil))
    assert SHOWN in found and found.count("\n") <= plain.count("\n")


@pytest.mark.parametrize("where", ["missing", "output", "usage"])
def test_an_error_message_is_one_harmless_line(
    where: str, evil: Path, golden: Path, pagetape: Run
) -> None:
    if where == "missing":
        shutil.rmtree(evil)
        said = pagetape("info", evil)
    elif where == "output":
        said = pagetape("replay", golden, "-o", evil)
    else:
        said = pagetape("report", "\x1b[31m\nx", golden)
    assert said.status in (1, 2)
    assert said.err.count("\n") == 1 and harmless(said.err), ascii(said.err)
    assert r"\x1b[31m" in said.err


def test_a_byte_of_a_name_that_is_not_utf_8_is_harmless(tmp_path: Path, pagetape: Run) -> None:
    said = pagetape("info", tmp_path / os.fsdecode(b"a\x9b31m"))
    assert r"a\x9b31m" in said.err and harmless(said.err)


def test_json_is_valid_and_has_the_true_names(evil: Path, pagetape: Run) -> None:
    for args in (("info",), ("sql", "SELECT comm FROM task")):
        said = pagetape(*args, evil, "--json")
        assert harmless(said.out), ascii(said.out)
        assert json.dumps(EVIL)[1:-1] in said.out
    assert json.loads(pagetape("info", evil, "--json").out)["host"] == EVIL


def test_no_name_reaches_a_page_raw(
    evil: Path, golden: Path, tmp_path: Path, pagetape: Run
) -> None:
    assert pagetape("html", golden, evil, "-o", tmp_path / "p.html").status == 0
    sweep = ("sweep", evil, "-o", tmp_path / "dir", "--html", tmp_path / "s.html")
    assert pagetape(*sweep).status == 0
    for page in ("p.html", "s.html"):
        text = (tmp_path / page).read_bytes().decode()
        assert harmless(text), ascii(re.findall(r"[^\n -~]+", text)[:5])
        assert html.escape(SHOWN) in text and "<b>" not in text


def test_top_shows_no_name_raw(capsys: pytest.CaptureFixture[str]) -> None:
    rates = dict.fromkeys(("freed", "refill", "drain"), 1.0)
    sample = {f"{name}_pages_per_s": rate for name, rate in rates.items()} | {
        "at": EVIL,
        "seconds": 1.0,
        "lost": 0,
        "allocs_per_s": {EVIL: 1.0},
        "failed_allocs_per_s": 0.0,
        "fallbacks": [{"alloc_migratetype": EVIL, "fallback_migratetype": EVIL, "per_s": 1.0}],
        "reclaim_per_s": {EVIL: 1.0},
        "compaction_per_s": {},
        "tasks": [{"comm": EVIL, "threads": 1, "pages_per_s": 1.0, "fallbacks_per_s": 1.0}],
        "zones": [
            dict.fromkeys(("free", "usable", "wmark_min", "wmark_low", "wmark_high", "boost"), 1)
            | {"node": EVIL, "zone": EVIL, "usable_exact": True}
        ],
    }
    for show in (top._screen("page", "pages", lambda: None), top._lines("pages")):
        with show as print_sample:
            print_sample(SimpleNamespace(as_json=lambda _sort: sample))
        assert harmless(capsys.readouterr().out)


def test_every_command_prints_through_one_place() -> None:
    package = Path(answer.__file__).parent
    for path in package.rglob("*.py"):
        if path.name != "answer.py":
            text = path.read_text("utf-8")
            assert "click.echo" not in text and "from html import" not in text, path

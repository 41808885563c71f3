# SPDX-License-Identifier: Apache-2.0
"""No name, comment, table, option or page uses a retired word of the first version.

A kernel engineer has to learn none of them. docs/CONTRIBUTING.md has the words in use.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]

# In no text and in no part of a name: the word that stands for it now.
RETIRED = {
    "told": "recorded, shown, inferred",
    "untold": "inferred",
    "tell": "show, report, say",
    "tells": "shows, reports, says",
    "telling": "showing",
    "aside": "reclaim event",
    "asides": "reclaim events",
    "whom": "which task",
    "witness": "state trace",
    "seize": "force",
    "shelf": "tape directory",
    "lockstep": "fan-out",
    "doubt": "pending miss",
    "doubts": "pending misses",
    "fate": "next event",
    "fates": "next events",
    "evacuate": "compact",
    "evacuation": "compaction goal",
    "drift": "vmstat diff",
    "tally": "count",
    "survey": "sample",
    "agreement": "difference of the end states",
    "heard": "recorded",
    "unheard": "without an event",
    "kept": "stored, retained",
}
# In no name of several words, and in no file's name; in a sentence they are plain English.
RETIRED_IN_NAMES = {
    "expect": "predict",
    "prefer": "preference",
    "prefers": "preference",
    "stepping": "validate run",
    "checkup": "doctor",
    "seized": "forced",
}

# What has to name the old words: the map of renames, the history, recordings made before.
ALLOWED = {
    "analyze/tests/test_words.py",
    "analyze/tests/test_old_tapes.py",
    "docs/schema.md",
    "schemas/tape.toml",
    "LICENSE",
}
TEXT = {".c", ".h", ".py", ".pyi", ".pyx", ".pxi", ".sql", ".toml", ".md", ".css", ".build", ""}


def files() -> Iterator[Path]:
    """Every tracked file that people read."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for name in listed.splitlines():
        path = ROOT / name
        if name not in ALLOWED and path.suffix in TEXT and "/data/" not in name and path.is_file():
            yield path


def parts(name: str) -> list[str]:
    """The words of a name, split at `_`, at `-` and where a capital begins one."""
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower().replace("-", "_").split("_")


def retired(text: str) -> Iterator[tuple[int, str]]:
    """Line and word of each retired word in a text."""
    anywhere = re.compile(rf"(?<![a-z])({'|'.join(RETIRED)})(?![a-z])")
    for number, line in enumerate(text.splitlines(), 1):
        for found in anywhere.finditer(re.sub(r"([a-z])([A-Z])", r"\1_\2", line).lower()):
            yield number, found[1]
        for name in re.findall(r"(?<![A-Za-z_])[A-Za-z]+(?:_[A-Za-z0-9]+)+", line):
            yield from ((number, part) for part in parts(name) if part in RETIRED_IN_NAMES)


def test_the_retired_words_stand_nowhere() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: '{word}'"
        for path in files()
        for number, word in retired(path.read_text(encoding="utf-8", errors="replace"))
    ]
    assert not found, f"{len(found)} retired words:\n" + "\n".join(found[:40])


def test_no_file_is_named_by_a_retired_word() -> None:
    words = RETIRED | RETIRED_IN_NAMES
    for path in files():
        assert not set(parts(path.stem)) & set(words), path.relative_to(ROOT)


def test_the_check_finds_a_word_in_a_name_and_in_a_sentence() -> None:
    code = "static int tell_page(int x); /* what no event told */\nbool expect_drain;\nKeptRows();"
    assert list(retired(code)) == [(1, "tell"), (1, "told"), (2, "expect"), (3, "kept")]
    assert not list(retired("the expected page, as preferred; a teller, foretold, backdrift"))

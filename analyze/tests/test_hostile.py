# SPDX-License-Identifier: Apache-2.0
"""Damaged or edited tapes: every command answers, or reports one line of error."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pagetape.schemas.tape import Tape, TapeError
from pagetape.tapes import output

from .conftest import Said, rewritten

COMMANDS = (
    ("info",),
    ("replay",),
    ("report", "extfrag.by_migratetype"),
)

VALUES: tuple[Any, ...] = (None, -1, 0, 2**64, 1.5, "", "x", [], [None], {}, {"x": 1}, True)


def flip(data: bytearray, random: Random) -> None:
    for _ in range(random.choice((1, 1, 8, 64))):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def truncate(data: bytearray, random: Random) -> None:
    del data[random.randrange(len(data)) :]


def blank(data: bytearray, random: Random) -> None:
    at = random.randrange(len(data))
    end = min(at + random.choice((8, 512, 4096)), len(data))
    data[at:end] = bytes(end - at)


def repeat(data: bytearray, random: Random) -> None:
    at, end = sorted(random.randrange(len(data)) for _ in range(2))
    data[at:at] = data[at:end]


def spoil_file(tape: Path, random: Random) -> str:
    """Damage one file of a tape; says how."""
    file = random.choice(sorted(tape.iterdir()))
    how = random.choice((flip, truncate, blank, repeat))
    data = bytearray(file.read_bytes())
    how(data, random)
    file.write_bytes(data)
    return f"{how.__name__} {file.name}"


def spoil_facts(facts: Any, random: Random) -> str:
    """Change one value somewhere in the facts; says which."""
    path = ""
    while True:
        keys = list(facts) if isinstance(facts, dict) else list(range(len(facts)))
        key = random.choice(keys)
        path += f".{key}"
        inner = facts[key]
        if isinstance(inner, dict | list) and inner and random.random() < 0.7:
            facts = inner
            continue
        facts[key] = random.choice(VALUES)
        return f"{path} = {facts[key]!r}"


def ask(pagetape: Callable[..., Said], tape: Path, why: str) -> None:
    for command in COMMANDS:
        said = pagetape(*command, str(tape), "--json")
        lines = said.err.splitlines()
        assert said.status in (0, 1), why
        assert len(lines) == said.status, f"{why}: {said.err}"
        assert all(line.startswith("pagetape: ") for line in lines), f"{why}: {said.err}"
        assert said.status == 1 or json.loads(said.out), why


# Seeds that once found a bug, and others.
@pytest.mark.parametrize("seed", [1, 2, 3, 7, 13, 43, 48])
def test_a_damaged_file_is_one_line(
    pagetape: Callable[..., Said], small: Path, tmp_path: Path, seed: int
) -> None:
    tape = tmp_path / "spoiled.tape"
    shutil.copytree(small, tape)
    ask(pagetape, tape, spoil_file(tape, Random(seed)))


@pytest.mark.parametrize("seed", [0, 1, 2, 11, 13, 17, 20, 22, 38, 53])
def test_absurd_facts_are_one_line(
    pagetape: Callable[..., Said], small: Path, tmp_path: Path, seed: int
) -> None:
    tape = tmp_path / "absurd.tape"
    facts = dict(json.loads(json.dumps(Tape(small).facts)))
    why = spoil_facts(facts, Random(seed))
    rewritten(small, tape, facts)
    ask(pagetape, tape, why)


@pytest.mark.parametrize(
    "words",
    [
        ("replay", "--policy", "nofragment", "-o", "out.tape"),
        ("validate", "-o", "out.tape"),
        ("export", "-o", "out.json"),
        ("export", "--format", "llfree", "-o", "out.llfree"),
    ],
    ids=" ".join,
)
def test_a_tape_that_is_refused_leaves_no_output(
    pagetape: Callable[..., Said],
    small: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
) -> None:
    tape = tmp_path / "t.tape"
    shutil.copytree(small, tape)
    (tape / "lock_wait.arrow").write_bytes(b"x")  # no run and no export reads this table
    monkeypatch.chdir(tmp_path)
    said = pagetape(words[0], tape, *words[1:])
    assert said.status == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.tape"]


@pytest.mark.parametrize(
    "units", [None, 5, "", [], {}, {"own": "page"}, {"own": 1, "this": "page"}]
)
def test_a_replay_with_wrong_units_of_fallbacks_is_one_line(
    pagetape: Callable[..., Said], played: Path, tmp_path: Path, units: Any
) -> None:
    tape, facts = tmp_path / "t.tape", Tape(played).facts["replay"] | {"fallback_events": units}
    rewritten(played, tape, {"replay": facts})
    for words in (("report", "metrics"), ("diagnose",), ("sql",)):
        said = pagetape(*words, tape, *(["SELECT * FROM machine"] if words == ("sql",) else []))
        assert (said.status, said.err.count("\n")) == (1, 1)
        assert f"{tape}: the machine facts are damaged: fact 'replay'" in said.err


def test_a_tape_is_not_made_of_facts_that_no_reader_takes(tmp_path: Path) -> None:
    facts = {"nodes": [{"id": 1 << 52, "cpus": [0]}]}
    with (
        pytest.raises(TapeError, match="fact 'nodes'"),
        output.whole_tape(tmp_path / "t.tape", facts, replace=False, inputs=()),
    ):
        pass
    assert list(tmp_path.iterdir()) == []

# SPDX-License-Identifier: Apache-2.0
"""Kernel messages that people published: their classes, and the sum of each zone.

The files are not in the repository; their texts belong to others.
"""

from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path
from random import Random
from typing import Any

import damage_messages
import pytest

from pagetape.explaining import explanation

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("PAGETAPE_SHARED", ROOT.parent / "shared/data"))
MESSAGES = SHARED / "messages"

pytestmark = pytest.mark.skipif(not MESSAGES.is_dir(), reason="needs the shared data")

_SUM = re.compile(
    r"Node (\d+) (\w+): (-?\d+) - \(.*\) = (-?\d+) (?:<=|>) -?\d+ = (?:high )?mark (-?\d+)"
    r" \+ lowmem_reserve (\d+) -> (fails|passes)"
)


def answers() -> list[Any]:
    file = MESSAGES / "answers.json"
    found = json.loads(file.read_text()) if file.is_file() else []
    return [pytest.param(one, id=f"{one['file'][:2]}-{one['report']}") for one in found]


def explained(name: str) -> list[dict[str, Any]]:
    with (MESSAGES / name).open("rb") as file:
        found: list[dict[str, Any]] = explanation.of_logs([(name, file)])["reports"]
    return found


@pytest.mark.parametrize("answer", answers())
def test_the_class_is_the_answer(answer: dict[str, Any]) -> None:
    report = explained(answer["file"])[answer["report"] - 1]
    assert report["class"] == answer["verdict"], (report["missing"], report["doubts"])


@pytest.mark.parametrize("answer", answers())
def test_each_zone_has_the_sum_of_the_answer(answer: dict[str, Any]) -> None:
    report = explained(answer["file"])[answer["report"] - 1]
    zones = {(zone["node"], zone["zone"]): zone for zone in report["zones"]}
    # Without a header, the writer of an answer took order and kernel from what people said.
    known = answer["order"] is not None
    sums = {}
    for text in answer["zones"]:
        node, zone, free, left, mark, reserve, end = _SUM.match(text).groups()  # type: ignore[union-attr]
        sums[int(node), zone] = (int(free), int(left), int(mark), int(reserve), end == "passes")
    assert zones.keys() == sums.keys() or not sums
    for key, (free, left, mark, reserve, passes) in sums.items():
        zone = zones[key]
        assert (zone["free"], zone["mark"], zone["lowmem_reserve"]) == (free, mark, reserve), key
        is_bound = "lowmem_reserve" in zone["bounds"]  # it is not printed: at least 0
        assert zone["passes"] is (None if is_bound and passes else passes), key
        assert free - sum(zone["subtracted"].values()) == left or not known, key


@pytest.mark.parametrize("answer", answers())
def test_the_last_try_before_a_kill(answer: dict[str, Any]) -> None:
    report = explained(answer["file"])[answer["report"] - 1]
    zones = {(zone["node"], zone["zone"]): zone for zone in report["zones"]}
    for text in answer.get("oom_last_try_at_high", []):
        node, name, _, _, mark, reserve, end = _SUM.match(text).groups()  # type: ignore[union-attr]
        last = zones[int(node), name]["last_try"]
        assert (last["mark"], last["lowmem_reserve"]) == (int(mark), int(reserve))
        assert last["passes"] is (end == "passes")


DAMAGED = 12  # logs of each file


@pytest.mark.parametrize("file", sorted({one.values[0]["file"] for one in answers()}))
def test_damage_never_makes_a_wrong_class_that_is_sure(file: str) -> None:
    known = {one.values[0]["verdict"] for one in answers() if one.values[0]["file"] == file}
    text = (MESSAGES / file).read_text(errors="replace").splitlines()
    for seed in range(DAMAGED):
        random = Random(f"{file} {seed}")
        lines = text
        for damage in random.sample(damage_messages.DAMAGES, random.choice([1, 1, 2, 3])):
            lines = damage(random, lines) or [""]
        log = io.BytesIO("\n".join(lines).encode())
        for report in explanation.of_logs([(file, log)])["reports"]:
            sure = report["sure"] and report["class"] != "cannot_tell"
            assert not sure or report["class"] in known, (seed, report["line"])

# SPDX-License-Identifier: Apache-2.0
"""What an imported file lacks, in words."""

from __future__ import annotations

from typing import Any

import pytest

from pagetape._collector import Found
from pagetape.recording.import_limits import facts_of

PERF = Found(
    kind="perf.data",
    kernel="6.1.0",
    host=None,
    arch=None,
    clock="perf",
    began=None,
    command="/usr/bin/perf record -a -e kmem:mm_page_alloc",
    cpus=2,
    counts_loss=True,
    overwritten=None,
    dropped_chunks=0,
    without_cpu=False,
    without_pid=False,
    without_time=False,
    in_us=False,
    has_stacks=False,
    has_symbols=False,
    is_sampled=False,
    sample_period=1,
    unknown_flag=None,
)
MACHINE = {"kernel": "6.1.0", "migratetypes": ["UNMOVABLE"], "nodes": []}


def limits(machine: dict[str, Any] = MACHINE, **changed: Any) -> list[str]:
    found: list[str] = facts_of(PERF._replace(**changed), machine)["limits"]
    return found


def test_a_file_that_lacks_nothing() -> None:
    assert limits() == []


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"counts_loss": False}, "does not show lost events"),
        ({"overwritten": 12}, "12 events before the first one were overwritten"),
        ({"dropped_chunks": 1}, "dropped 1 chunk"),
        ({"command": "perf record -e kmem:x --filter 'order > 0' -ag"}, "--filter order > 0:"),
        ({"command": "perf record -g -e kmem:x ls"}, "one command or process only"),
        ({"is_sampled": True, "sample_period": 1000}, "one event of 1,000 was recorded"),
        ({"is_sampled": True, "sample_period": None}, "one event of a varying number"),
        ({"has_stacks": True}, "stacks are addresses"),
        ({"without_cpu": True}, "no CPUs"),
        ({"without_pid": True}, "no thread"),
        ({"without_time": True}, "counts no time"),
        ({"in_us": True}, "microseconds"),
        ({"unknown_flag": "__GFP_X"}, "gfp flag __GFP_X is unknown"),
        ({"kind": "Perfetto", "command": None}, "zones are numbered as by 64-bit x86"),
    ],
)
def test_each_limit(changed: dict[str, Any], words: str) -> None:
    (limit,) = limits(**changed)
    assert words in limit


@pytest.mark.parametrize(
    "command",
    ["perf record -ag", "perf record -C 0-3", "perf record --all-cpus", "perf kmem record"],
)
def test_commands_that_record_every_process(command: str) -> None:
    assert limits(command=command) == []


def test_what_the_machine_gives_is_not_lacking() -> None:
    lacking = limits({}, kernel=None)
    assert [line.split(" (")[0] for line in lacking] == [
        "no kernel release",
        "no names of migratetypes",
        "no memory state",
    ]
    assert limits({"kernel": "6.1.0"}, kernel=None) == lacking[1:]

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Damage kernel messages, and explain them: no class that is sure may be a wrong one.

    fuzz_messages.py [SECONDS] [SEED]

The messages are those of kernel_messages.py, the damage that of damage_messages.py. At least 2,000
logs are explained. The first one that ends in a wrong sure class, or in an error, is left in
./fuzz_messages-crash. The output is like that of libFuzzer.
"""

from __future__ import annotations

import io
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import damage_messages
import kernel_messages

from pagetape.explaining import explanation

_LEAST = 2000  # logs
_CRASH = Path("fuzz_messages-crash")


def explained(text: str) -> list[dict[str, Any]]:
    """The explanations of a log's text."""
    found: list[dict[str, Any]] = explanation.of_logs([("log", io.BytesIO(text.encode()))])[
        "reports"
    ]
    return found


def log(seed: int) -> tuple[list[kernel_messages.Message], str]:
    """One or two messages, and the damaged text of them."""
    random = Random(seed)
    messages = [kernel_messages.make(random) for _ in range(random.choice([1, 1, 2]))]
    return messages, damage_messages.damaged([one.lines for one in messages], random)


def judged(messages: list[kernel_messages.Message], reports: list[dict[str, Any]]) -> Counter[str]:
    """How many explanations are `right` and sure, `wrong` and sure, or `unsure`."""
    found: Counter[str] = Counter()
    for report in reports:
        of_task = {one.verdict for one in messages if one.task == report["task"]}
        right = of_task or {one.verdict for one in messages}
        sure = report["sure"] and report["class"] != "cannot_tell"
        found["unsure" if not sure else "right" if report["class"] in right else "wrong"] += 1
    return found


def main(seconds: float = 60, seed: int = 0) -> int:
    found: Counter[str] = Counter()
    start, nr = time.monotonic(), 0
    while nr < _LEAST or time.monotonic() - start < seconds:
        messages, text = log(seed + nr)
        _CRASH.write_text(text)
        one = judged(messages, explained(text))
        if one["wrong"]:
            print(f"seed {seed + nr}: a wrong class is sure; the log is in {_CRASH}")
            return 1
        found += one
        nr += 1
    _CRASH.unlink()
    print(f"stat::number_of_executed_units: {nr}; {found['right']} right, {found['unsure']} unsure")
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(float, sys.argv[1:2]), *map(int, sys.argv[2:3])))

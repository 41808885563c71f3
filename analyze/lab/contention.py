#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare the recorded waits for zone locks with what another tracer sees of the same locks.

    contention.py --kernel RELEASE|DIR [--load NAME] [--seconds S] [--cpus N] [--mb MB]

Records `--events page,lock` in a guest of N CPUs (4) and one node, in which a tracing instance of
its own has the recorder's filter during the load (guest.py --locks). The CPU denies that it is
virtual: else the kernel takes spinlocks without the queue whose waits are events. Prints one JSON
object: `events` of both, `waits` in the report, and `differing`: events of a CPU that are not the
same in kind and thread, or not within 100 ms. Aim: more than 100 waits, none differing.
"""

import itertools
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import guest
import program

from pagetape.schemas.tape import Tape

_LINE = re.compile(r".+-(\d+) +\[(\d+)\] \S+ +(\d+)\.(\d{6}): contention_(begin|end):")
_NEAR_NS = 100_000_000  # QEMU may stop a CPU between the two records of an event
_CPU = "max,-hypervisor"


class Seen(NamedTuple):
    """One event of a lock."""

    ts: int  # ns
    cpu: int
    kind: str
    pid: int


def of_trace(text: str) -> list[Seen]:
    """The events in the text of a tracing instance."""
    found = map(_LINE.match, text.splitlines())
    return [
        Seen(int(m[3]) * 10**9 + int(m[4]) * 1000, int(m[2]), m[5], int(m[1])) for m in found if m
    ]


def differing(here: list[Seen], there: list[Seen]) -> int:
    """Events of both that are not the same, CPU by CPU."""
    wrong = 0
    for cpu in {one.cpu for one in here + there}:
        pairs = itertools.zip_longest(
            *([o for o in ones if o.cpu == cpu] for ones in (here, there))
        )
        for one, other in pairs:
            same = one and other and (one.kind, one.pid) == (other.kind, other.pid)
            wrong += not (same and abs(one.ts - other.ts) < _NEAR_NS)
    return wrong


def main() -> int:
    parser = program.parser(__doc__)
    parser.add_argument("--kernel", required=True)
    parser.add_argument("--load", default="pipes+forks+slab+storm")
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--cpus", type=int, default=4)
    parser.add_argument("--mb", type=int, default=384)
    given = vars(parser.parse_args())
    guest.check_programs()
    with TemporaryDirectory(prefix="contention-") as work, guest.root() as disk:
        out = Path(work, "t.tape")
        guest.record(
            guest.Guest(nodes=1, events="page,lock", cpu=_CPU, locks=True, **given), disk, out
        )
        there = of_trace(Path(f"{out}.locks").read_text())
        tape = Tape(out)
        rows = [row for row in tape.rows("lock_event") if row["kind"] != "release"]
        kernel = tape.facts["kernel"]
    if not there:
        print("contention: the other tracer saw no wait", file=sys.stderr)
        return 1
    # The other tracer begins after the recorder, and ends before it.
    first, last = there[0].ts - _NEAR_NS, there[-1].ts + _NEAR_NS
    here = [
        Seen(row["ts"], row["cpu"], row["kind"], row["pid"])
        for row in rows
        if first <= row["ts"] <= last
    ]
    found = {
        "kernel": kernel,
        "waits": sum(one.kind == "begin" for one in here),
        "events": len(here),
        "events of the other tracer": len(there),
        "differing": differing(here, there),
    }
    program.give({"locks": [found]})
    return 0


if __name__ == "__main__":
    program.run(main)

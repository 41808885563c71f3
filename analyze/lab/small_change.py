# SPDX-License-Identifier: Apache-2.0
"""Whether a small change of a tape moves the answers of its ensembles.

    small_change.py [--members N] [--seed S] [--policy STACK]... TAPE...

Of each tape a copy is made that lacks two allocations of its first third and their frees, drawn by
the seed. Ensembles of both are played under each stack of policies. A line per tape and stack has
both medians and intervals of the fallbacks, and whether each median lies in the interval of the
other. A what-if whose answer such a change moves further than its interval is no prediction.
"""

from __future__ import annotations

import random
import tempfile
from bisect import bisect_left
from collections import Counter
from pathlib import Path
from typing import Any

import program
import pyarrow as pa
import recordings

from pagetape.asking import interval
from pagetape.asking.comparison import members_of
from pagetape.replaying import MEMBERS, ensemble, reclaim_mode, replay_span
from pagetape.replaying.playback import Run, in_mode
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape
from pagetape.tapes import output

_METRIC = "fallbacks"
_POLICIES = ("", "nofragment:mode=always", "pcp:percpu_pagelist_high_fraction=8")
_REMOVED = 2  # allocations
_FREES = ("free", "free_batched")


def lives(tape: Tape) -> list[tuple[int, int]]:
    """The single pages that were allocated in the first third of the tape and freed later, as rows
    of `event`: of the alloc and of the free."""
    rows = tape.num_rows("event")
    used: dict[int, int] = {}
    found = []
    base = 0
    for batch in tape.batches("event"):
        columns = (batch[name].to_pylist() for name in ("kind", "pfn", "page_order"))
        for at, (kind, pfn, order) in enumerate(zip(*columns, strict=True), base):
            if kind == "alloc" and order == 0 and at < rows // 3:
                used[pfn] = at
            elif kind in _FREES and order == 0 and pfn in used:
                found.append((used.pop(pfn), at))
        base += batch.num_rows
    return found


def _without(batch: pa.RecordBatch, base: int, rows: list[int]) -> pa.RecordBatch:
    """A batch of events, the first of which is row `base`, without some rows."""
    keep = [True] * batch.num_rows
    for row in rows[bisect_left(rows, base) : bisect_left(rows, base + batch.num_rows)]:
        keep[row - base] = False
    return batch.filter(pa.array(keep, pa.bool_()))


def _moved(batch: pa.RecordBatch, rows: list[int]) -> pa.RecordBatch:
    """Rows of a table with `at`, which is the number of a row of `event`."""
    at = pa.array(
        [None if row is None else row - bisect_left(rows, row) for row in batch["at"].to_pylist()],
        batch["at"].type,
    )
    return batch.set_column(batch.schema.get_field_index("at"), batch.schema.field("at"), at)


def _tracepoints(tape: Tape, removed: Counter[str]) -> list[dict[str, Any]]:
    """What each tracepoint of the tape counted, had it not seen the removed kinds of events."""
    points = {k.tracepoints[0].partition(":")[2]: k.name for k in TABLES["event"].kinds}
    found = []
    for row in tape.rows("tracepoint"):
        less = removed[points.get(row["name"].rpartition(":")[2], "")]
        found.append(row if row["events"] is None else row | {"events": row["events"] - less})
    return found


def without(tape: Tape, out: Path, rows: list[int]) -> None:
    """Write a copy of the tape without some rows of `event`, given in order."""
    removed: Counter[str] = Counter()
    with output.whole_tape(out, tape.facts, replace=True, inputs=[tape.path]) as writer:
        base = 0
        for batch in tape.batches("event"):
            left = _without(batch, base, rows)
            removed.update(batch["kind"].to_pylist())
            removed.subtract(left["kind"].to_pylist())
            writer.write("event", left)
            base += batch.num_rows
        for name in sorted(tape.tables - {"event", "tracepoint"}):
            for batch in tape.batches(name):
                writer.write(name, _moved(batch, rows) if "at" in batch.schema.names else batch)
        if "tracepoint" in tape.tables:
            writer.rows("tracepoint", _tracepoints(tape, removed))


def fallbacks(path: Path, policies: str, members: int) -> interval.Interval:
    """The fallbacks of an ensemble of the tape under a stack of policies."""
    tape = Tape(path)
    source = recordings.source(tape)
    stack = tuple(policies.split("+")) if policies else ()
    run = in_mode(tape, Run("auto", stack), reclaim_mode.AUTO)
    rows = ensemble.play(source, {"this": run}, members)
    kind = interval.kind_of(replay_span.kind(tape), run.reclaim)
    return interval.interval(_METRIC, "events", members_of(rows)["this"][_METRIC], kind)


def main() -> None:
    parser = program.parser(__doc__)
    parser.add_argument("--members", type=int, default=MEMBERS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--policy", action="append", help="a stack, joined by +; '' for none")
    parser.add_argument("tapes", nargs="+", type=Path)
    arguments = parser.parse_args()
    rows = []
    for path in arguments.tapes:
        tape = Tape(path)
        pages = random.Random(arguments.seed).sample(lives(tape), _REMOVED)
        with tempfile.TemporaryDirectory() as directory:
            changed = Path(directory) / "changed.tape"
            without(tape, changed, sorted(row for page in pages for row in page))
            for stack in arguments.policy or _POLICIES:
                program.say(f"== {path.stem}, {stack or 'no policy'}")
                one, other = (fallbacks(p, stack, arguments.members) for p in (path, changed))
                holds = other.low <= one.median <= other.high and (
                    one.low <= other.median <= one.high
                )
                shown = ([found.median, found.low, found.high] for found in (one, other))
                rows.append([path.stem, stack or "none", *shown, "yes" if holds else "no"])
    columns = ("recording", "policy", "fallbacks", "with two pages fewer")
    program.give({"answers": program.table((*columns, "each median in the other"), rows)})


if __name__ == "__main__":
    program.run(main)

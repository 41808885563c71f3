# SPDX-License-Identifier: Apache-2.0
"""The first wrong page of a free run, and the states of kernel and model around it.

The kernel's state is that of validate, which takes over every recorded decision. Both runs
are repeated up to the wrong page, each with a state trace (replay/explain/state_trace.h). A
wrong page shows only when it is allocated: the states may have differed long before. For each
part of the state, the last row with equal states shows which part differed first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pagetape import _replay
from pagetape.replaying import hindsight, kernels, validate_run
from pagetape.replaying.engine_run import EngineRun, event_batches
from pagetape.replaying.playback import Run, Source
from pagetape.schemas.tape import Tape

# Rows to play after the wrong page: some events are decided only by later rows.
_MARGIN = 1 << 16

# Parts of the state, in the order of their digests: replay/explain/state_trace.h.
PARTS = (
    "free lists",
    "per-CPU lists",
    "tuning of per-CPU lists",
    "marks of zones",
    "counters of free pages",
)

_REQUESTS = {"alloc", "free", "free_batched"}
_OF_A_REFILL = {"alloc_zone_locked", "alloc_extfrag"}
_INFERRED_ROWS, _LISTS = 6, 16  # most lines of lists to print


def _rows(tape: Tape, first: int, end: int) -> Iterator[dict[str, Any]]:
    """Rows of event, each with its number, `at`."""
    base = 0
    for batch in tape.batches("event"):
        begin = max(first - base, 0)
        part = batch.slice(begin, max(min(end - base, batch.num_rows) - begin, 0))
        for row, values in enumerate(part.to_pylist(), base + begin):
            yield values | {"at": row}
        base += batch.num_rows
        if base >= end:
            return


def _first_of_refill(tape: Tape, wrong: dict[str, Any]) -> int:
    """The row of the first event of the refill that the page came from, or the page's own row."""
    first = int(wrong["at"])
    before = [row for row in _rows(tape, max(first - 4096, 0), first) if row["cpu"] == wrong["cpu"]]
    for row in reversed(before):
        if row["kind"] not in _OF_A_REFILL:
            break
        first = row["at"]
    return first


def _until_wrong_page(engine: _replay.Replay, tape: Tape) -> Iterator[pa.RecordBatch]:
    """The batches of event, up to the one with the first wrong page."""
    for batch in event_batches(tape):
        yield batch
        if engine.wrong_page is not None:
            return


def _first_rows(tape: Tape, rows: int) -> Iterator[pa.RecordBatch]:
    """The first `rows` of event."""
    for batch in event_batches(tape, rows):
        yield batch.slice(0, max(rows, 0))
        rows -= batch.num_rows


def _first_wrong_page(source: Source, own: Run) -> _replay.WrongPage | None:
    engine = source.engine(own, events=False, explains=True)
    EngineRun(engine, source.tape, source.tables(own)).play(_until_wrong_page(engine, source.tape))
    return engine.wrong_page


def _same_until(kernel: bytes, model: bytes, start: int) -> list[int | None]:
    """By part of the state: the last row before which both states were equal; None for never."""
    found: list[int | None] = []
    words = [
        pa.Array.from_buffers(pa.uint32(), len(digests) // 4, [None, pa.py_buffer(digests)])
        for digests in (kernel, model)
    ]
    each = [pa.FixedSizeListArray.from_arrays(w, len(PARTS)) for w in words]
    for part in range(len(PARTS)):
        ours, theirs = (pc.list_element(digests, part) for digests in each)
        same = pc.and_(pc.equal(ours, theirs), pc.not_equal(ours, 0))
        rows = pc.indices_nonzero(same)
        found.append(start + rows[-1].as_py() if len(rows) else None)
    return found


def _event(rows: list[dict[str, Any]]) -> str:
    """Successive similar events of one CPU, in one line."""
    first, last = rows[0], rows[-1]
    words = [f"row {first['at']}" if len(rows) == 1 else f"rows {first['at']} to {last['at']}"]
    words[0] += f", cpu {first['cpu']}, pid {first['pid']}: {first['kind']}"
    words.append("no page" if first["pfn"] is None else f"pfn {first['pfn']}")
    if len(rows) > 1:
        words.append(f"... {last['pfn']}")
    if first["page_order"] is not None:
        words.append(f"order {first['page_order']}")
    if first["migratetype"] is not None:
        words.append(first["migratetype"])
    return "  " + " ".join(words)


def _events(tape: Tape, first: int, end: int) -> list[str]:
    alike = ("cpu", "pid", "kind", "page_order", "migratetype")
    groups = groupby(_rows(tape, first, end), lambda row: [row[name] for name in alike])
    return [_event(list(rows)) for _, rows in groups]


def _inferred(rows: pa.Table, first: int, end: int) -> list[str]:
    """The inferred input rows before the given rows of event, as lines of text."""
    at = rows["at"]
    near = rows.filter(pc.and_(pc.greater_equal(at, first), pc.less(at, end)))
    return [
        f"  before row {row['at']}, cpu {row['cpu']}, inferred: {row['kind']}"
        f" pfn {row['pfn']} order {row['page_order']}"
        for row in near.slice(0, _INFERRED_ROWS).to_pylist()
    ]


def _list_name(state: _replay.ListState) -> tuple[Any, ...]:
    return state["node"], state["zone"], state["cpu"], state["page_order"], state["migratetype"]


def _entries(state: _replay.ListState | None) -> str:
    if state is None:
        return "empty"
    more = " ..." if state["nr"] > len(state["pfns"]) else ""
    return f"{state['nr']} ({' '.join(map(str, state['pfns']))}{more})"


def _unlike(kernel: list[_replay.ListState], model: list[_replay.ListState]) -> list[str]:
    """The lists that differ in length or in their first entries, as lines of text."""
    ours, theirs = ({_list_name(state): state for state in states} for states in (kernel, model))
    lines = []
    for name in dict.fromkeys([*ours, *theirs]):
        one, other = ours.get(name), theirs.get(name)
        if one == other:
            continue
        node, zone, cpu, order, migratetype = name
        whose = "free list" if cpu is None else f"list of CPU {cpu}"
        lines.append(
            f"  node {node} {zone}, {whose}, order {order} {migratetype}:"
            f" kernel {_entries(one)}, model {_entries(other)}"
        )
    more = [f"  ... and {len(lines) - _LISTS} more"] if len(lines) > _LISTS else []
    return [*lines[:_LISTS], *more]


class _Pair:
    """Both runs up to the wrong page, each with a state trace of the same request."""

    def __init__(self, source: Source, own: Run, wrong: dict[str, Any], ran: int) -> None:
        self._source, self._own = source, own
        self.start = source.spans[0][0] if source.spans else 0
        self.first = max(min(_first_of_refill(source.tape, wrong), ran), self.start)
        self._request = wrong | {"start": self.start, "first": self.first, "ran": ran}

    def traces(self, lists: int | None = None) -> tuple[_replay.StateTrace, _replay.StateTrace]:
        """The states of kernel and model, with all lists as they are before row `lists`."""
        tape = self._source.tape
        trace: Any = self._request | {"lists": lists}
        until = trace["at"] + _MARGIN
        engine = self._source.engine(self._own, events=False, trace=trace)
        EngineRun(engine, tape, self._source.tables(self._own)).play(_first_rows(tape, until))
        model = engine.state_trace
        row = kernels.row(tape, "auto")
        tables = hindsight.tables(tape, self._source.begin, *validate_run.INPUT)
        look = validate_run.Look(until - self.start, trace)
        begin = validate_run.Begin(tables)
        kernel = validate_run.run(tape, row, look=look, begin=begin).state_trace
        assert model and kernel
        return kernel, model


def _ran(wrong: dict[str, Any], inferred: pa.Table) -> int:
    """The row before which the request ran; its event may come later."""
    at = int(wrong["at"])
    early = inferred.filter(pc.equal(inferred["event_row"], at))["at"]
    return int(early[0].as_py()) if len(early) else at


@dataclass(frozen=True)
class _Parting:
    """The place where the lists of two states begin to differ."""

    there: list[str]  # the events, and the inferred rows
    after: int  # row before which the lists differ
    unlike: list[str]  # the lists that differ


def _parting(pair: _Pair, tape: Tape, inferred: pa.Table, last: int, end: int) -> _Parting:
    """`last`: the last row before which all lists were equal; `end`: a row after the wrong page."""
    after = next((row["at"] for row in _rows(tape, last + 1, end) if row["kind"] in _REQUESTS), end)
    there = [*_events(tape, last, after + 1), *_inferred(inferred, last, after + 1)]
    kernel, model = pair.traces(after)
    return _Parting(there, after, _unlike(kernel["lists"], model["lists"]))


def explain(source: Source, run: Run) -> dict[str, Any] | None:
    """The first wrong page of a free run under the tape's own kernel and policy, or None.

    The free run has the input of `run`. Keys of the result besides the page:

        same_until   by part of the state, the last row before which model and kernel agreed
        there        the events at which the lists begin to differ
        unlike       the lists that differ at these events
        explanation  all of this as lines of text
    """
    inferred = pa.Table.from_batches(source.inferred(run), source.all_inferred.schema)
    found = _first_wrong_page(source, run.own)
    if found is None:
        return None
    wrong: dict[str, Any] = dict(found)
    ran = _ran(wrong, inferred)
    pair = _Pair(source, run.own, wrong, ran)
    kernel, model = pair.traces()
    until = _same_until(kernel["digests"], model["digests"], pair.start)
    same = dict(zip(PARTS, until, strict=True))
    last = max(min(same[part] or 0 for part in PARTS[:2]), pair.start)
    parting = _parting(pair, source.tape, inferred, last, int(wrong["at"]) + 1)
    early = [f"the request ran before row {ran}, and its event came later"]
    when = "it" if pair.first == wrong["at"] else f"row {pair.first}, where it began"
    explanation = [
        *kernel["event"],
        *(early if ran < wrong["at"] else []),
        *(f"the kernel before {when}:", *kernel["before"]),
        *(f"the model before {when}:", *model["before"]),
        *("the kernel after it:", *kernel["after"]),
        *("the model after it:", *model["after"]),
        "kernel and model were the same",
        *(f"  {part}: {'never' if at is None else f'until row {at}'}" for part, at in same.items()),
        *("there:", *parting.there),
        *(f"what differs before row {parting.after}:", *parting.unlike),
    ]
    parts = {"same_until": same, "there": parting.there, "unlike": parting.unlike}
    return wrong | parts | {"explanation": explanation}

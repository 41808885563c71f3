# SPDX-License-Identifier: Apache-2.0
"""Where a free run leaves the kernel's track: its first wrong page, and both states around it.

The kernel's state is that of validate, which takes over every recorded decision. Both runs
are made once more up to the wrong page, with a witness of each (replay/witness.h). A page is
wrong only when it is handed out: the two states may have parted long before, and how long
they were the same says which part of the state went first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pagetape import _replay
from pagetape.replaying import kernels, validate_run
from pagetape.replaying.playback import Run, Source
from pagetape.schemas.tape import Tape

# Rows after the wrong page that are played as well: what waits for later rows sees them.
_MARGIN = 1 << 16

# Parts of the state, in the order of their digests: replay/witness.h.
PARTS = (
    "free lists",
    "per-CPU lists",
    "tuning of per-CPU lists",
    "marks of zones",
    "counters of free pages",
)

_REQUESTS = {"alloc", "free", "free_batched"}
_OF_A_REFILL = {"alloc_zone_locked", "alloc_extfrag"}
_UNTOLD_ROWS, _LISTS = 6, 16  # told at most


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
    """The first event of the refill that the page came from, or its own row."""
    first = int(wrong["at"])
    before = [row for row in _rows(tape, max(first - 4096, 0), first) if row["cpu"] == wrong["cpu"]]
    for row in reversed(before):
        if row["kind"] not in _OF_A_REFILL:
            break
        first = row["at"]
    return first


def _play(source: Source, until: int | None, **options: Any) -> _replay.Replay:
    """A free run up to its first wrong page, or through the rows before `until`."""
    engine = source.engine(Run("auto", ()), events=False, **options)
    preference = source.preference(Run("auto", ()))
    for name, batch in [*source.start, *(("preference", b) for b in preference.to_batches())]:
        engine.load(name, batch)
    fed = 0
    for batch in source.tape.batches("event"):
        engine.feed(batch if until is None else batch.slice(0, max(until - fed, 0)))
        while engine.read() is not None:
            pass
        fed += batch.num_rows
        if engine.wrong_page is not None if until is None else fed >= until:
            break
    engine.finish()
    return engine


def _same_until(kernel: bytes, model: bytes, start: int) -> list[int | None]:
    """By part of the state: the last row before which it was the same in both, if any."""
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
    """Like events of a CPU, one after the other, in one line."""
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


def _inferred(rows: pa.Table | None, first: int, end: int) -> list[str]:
    """What no event told before some rows, and the run was given."""
    if rows is None:
        return []
    at = rows["at"]
    near = rows.filter(pc.and_(pc.greater_equal(at, first), pc.less(at, end)))
    return [
        f"  before row {row['at']}, cpu {row['cpu']}, no event tells: {row['kind']}"
        f" pfn {row['pfn']} order {row['page_order']}"
        for row in near.slice(0, _UNTOLD_ROWS).to_pylist()
    ]


def _list_name(look: _replay.ListLook) -> tuple[Any, ...]:
    return look["node"], look["zone"], look["cpu"], look["page_order"], look["migratetype"]


def _entries(look: _replay.ListLook | None) -> str:
    if look is None:
        return "empty"
    more = " ..." if look["nr"] > len(look["pfns"]) else ""
    return f"{look['nr']} ({' '.join(map(str, look['pfns']))}{more})"


def _unlike(kernel: list[_replay.ListLook], model: list[_replay.ListLook]) -> list[str]:
    """The lists that are not the same in both, as far as they were looked at."""
    ours, theirs = ({_list_name(look): look for look in looks} for looks in (kernel, model))
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
    """Both runs up to the wrong page, each with a witness of one scene."""

    def __init__(self, source: Source, wrong: dict[str, Any], ran: int) -> None:
        self._source = source
        self.start = source.spans[0][0] if source.spans else 0
        self.first = max(min(_first_of_refill(source.tape, wrong), ran), self.start)
        self._scene = wrong | {"start": self.start, "first": self.first, "ran": ran}

    def see(self, lists: int | None = None) -> tuple[_replay.Sight, _replay.Sight]:
        """The kernel, then the model."""
        tape = self._source.tape
        scene: Any = self._scene | {"lists": lists}
        until = scene["at"] + _MARGIN
        model = _play(self._source, until, scene=scene).saw
        row = kernels.row(tape, "auto")
        most = until - self.start
        kernel = validate_run.run(tape, row, lambda _name, _batch: None, most=most, scene=scene).saw
        assert model and kernel
        return kernel, model


def _ran(wrong: dict[str, Any], inferred: pa.Table | None) -> int:
    """The row before which the request ran: its event may have come later."""
    at = int(wrong["at"])
    if inferred is None:
        return at
    early = inferred.filter(pc.equal(inferred["event_row"], at))["at"]
    return int(early[0].as_py()) if len(early) else at


@dataclass(frozen=True)
class _Parting:
    """Where the lists of two states part."""

    there: list[str]  # the events, and what no event told
    after: int  # row before which they are no longer the same
    unlike: list[str]  # the lists that are not


def _parting(pair: _Pair, tape: Tape, inferred: pa.Table | None, last: int, end: int) -> _Parting:
    """`last` is the row before which all lists were the same, `end` that after the wrong page."""
    after = next((row["at"] for row in _rows(tape, last + 1, end) if row["kind"] in _REQUESTS), end)
    there = [*_events(tape, last, after + 1), *_inferred(inferred, last, after + 1)]
    kernel, model = pair.see(after)
    return _Parting(there, after, _unlike(kernel["lists"], model["lists"]))


def explain(
    tape: Tape, inferred: pa.Table | None = None, preferences: pa.Table | None = None
) -> dict[str, Any] | None:
    """The first wrong page of a free run under the tape's own kernel and policy, or None.

    `inferred` and `preferences` are as for Source. `same_until` has, by part of the state, the
    last row before which it was the kernel's; `there` the events where the lists part, and
    `unlike` the lists that are not the same then; `explanation` is all of it in lines of text.
    """
    source = Source(tape, inferred, preferences)
    found = _play(source, None, explains=True).wrong_page
    if found is None:
        return None
    wrong: dict[str, Any] = dict(found)
    ran = _ran(wrong, inferred)
    pair = _Pair(source, wrong, ran)
    kernel, model = pair.see()
    until = _same_until(kernel["digests"], model["digests"], pair.start)
    same = dict(zip(PARTS, until, strict=True))
    last = max(min(same[part] or 0 for part in PARTS[:2]), pair.start)
    parting = _parting(pair, tape, inferred, last, int(wrong["at"]) + 1)
    early = [f"the request ran before row {ran}, and its event came later"]
    when = "it" if pair.first == wrong["at"] else f"row {pair.first}, where it began"
    explanation = [
        *kernel["event"],
        *(early if ran < wrong["at"] else []),
        *(f"the kernel before {when}:", *kernel["before"]),
        *(f"the model before {when}:", *model["before"]),
        *("the kernel after it:", *kernel["after"]),
        *("the model after it:", *model["after"]),
        "the two were the same",
        *(f"  {part}: " + (f"until row {row}" if row else "never") for part, row in same.items()),
        *("there:", *parting.there),
        *(f"what differs before row {parting.after}:", *parting.unlike),
    ]
    told = {"same_until": same, "there": parting.there, "unlike": parting.unlike}
    return wrong | told | {"explanation": explanation}

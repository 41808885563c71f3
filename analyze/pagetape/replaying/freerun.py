# SPDX-License-Identifier: Apache-2.0
"""The accuracy of a free run: the model's pages beside those of the recording.

The model takes only the requests from the tape. Every page that it hands out is compared with
the page that the kernel handed out. One wrong page causes others, so the share of equal pages
falls with time. The result therefore also has the first wrong page.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pagetape.asking import query
from pagetape.asking.database import Database, labels
from pagetape.replaying import replay_span
from pagetape.schemas.tape import Tape

# Anomalies of requests that the model refuses; the model writes no event for them.
_NOT_TAKEN = ("bad_event", "outside_zones")

_COLUMNS = ("ts", "cpu", "pid", "pfn", "page_order", "migratetype")


def _allocs(tape: Tape, rows: list[replay_span.Span], without: pa.Array) -> Iterator[pa.Table]:
    """The allocs among some rows of event, or all, except the rows `without`; `at` is the row."""
    base = 0
    for batch in tape.batches("event"):
        for first, end in rows or [(0, base + batch.num_rows)]:
            begin = max(first - base, 0)
            part = batch.slice(begin, max(min(end - base, batch.num_rows) - begin, 0))
            columns = {name: part[name] for name in _COLUMNS}
            found = pa.table({"at": pa.arange(base + begin, base + begin + len(part)), **columns})
            mask = pc.equal(part["kind"], "alloc")
            if len(without):
                mask = pc.and_not(mask, pc.is_in(found["at"], value_set=without))
            yield found.filter(mask)
        base += batch.num_rows


def _concat(tables: Iterator[pa.Table]) -> pa.Table:
    return pa.concat_tables(list(tables)).unify_dictionaries()


def _compare_allocs(tape: Tape, model: Tape) -> dict[str, Any]:
    """The allocs of both tapes, one by one."""
    anomaly = model.table("anomaly")
    taken = pc.is_in(anomaly["kind"].cast(pa.utf8()), value_set=pa.array(_NOT_TAKEN))
    not_taken = anomaly.filter(taken)["at"].cast(pa.int64()).combine_chunks()
    recorded = _concat(_allocs(tape, replay_span.spans(tape), not_taken))
    played = _concat(_allocs(model, [], pa.array([], pa.int64())))
    assert len(recorded) == len(played), (len(recorded), len(played))
    served = pc.is_valid(
        recorded["pfn"]
    )  # a request that failed in the recording is not a decision
    same = pc.fill_null(pc.equal(recorded["pfn"], played["pfn"]), False)
    wrong = pc.index(pc.and_not(served, same), True).as_py()
    first = None
    if wrong >= 0:
        first = recorded.slice(wrong, 1).to_pylist()[0]
        first |= {"got": first.pop("pfn"), "expected": played["pfn"][wrong].as_py()}
        first["exact_before"] = pc.sum(served.slice(0, wrong)).as_py() or 0
    return {
        "allocs": pc.sum(served).as_py() or 0,
        "alloc_exact": pc.sum(pc.and_(served, same)).as_py() or 0,
        "first_divergence": first,
    }


def _extfrag(db: Database, names: dict[str, str]) -> dict[str, Any]:
    rows = db.run(query.internal()["fallbacks_beside_model"], names).objects()

    def by(*columns: str) -> list[dict[str, Any]]:
        sums: dict[tuple[Any, ...], list[int]] = {}
        for row in rows:
            one = sums.setdefault(tuple(row[c] for c in columns), [0, 0])
            one[0] += row["recorded"]
            one[1] += row["model"]
        found = [
            dict(zip(columns, key, strict=True)) | {"recorded": nr[0], "model": nr[1]}
            for key, nr in sums.items()
        ]
        return sorted(found, key=lambda row: -max(row["recorded"], row["model"]))

    return {
        "recorded": sum(row["recorded"] for row in rows),
        "model": sum(row["model"] for row in rows),
        "by_type": by("alloc_migratetype", "fallback_migratetype"),
        "by_kind": by("kind"),
        "by_order": by("alloc_order"),
    }


def _end_state(db: Database, names: dict[str, str]) -> dict[str, Any] | None:
    """Free blocks, PCP pages and pageblocks of the last exact snapshot, beside the end state."""
    last = db.ask(
        "SELECT max(snapshot) AS last FROM snapshot"
        " WHERE how = 'exact' AND snapshot > 0 AND tape = $recorded",
        {"recorded": names["recorded"]},
    ).objects()[0]["last"]
    if last is None:
        return None
    found: dict[str, Any] = {}
    values = names | {"snapshot": last}
    for row in db.run(query.internal()["end_state"], values).objects():
        found |= {f"{row['part']}s": row["nr"], f"{row['part']}s_same": row["same"]}
    return found


def score(tape: Tape, model: Tape) -> dict[str, Any]:
    """The accuracy of `model`, a free run of `tape` under the tape's own rules."""
    pair = [tape, model]
    names = dict(zip(("recorded", "model"), labels(pair), strict=True))
    with Database(pair) as db:
        return {
            **_compare_allocs(tape, model),
            "extfrag": _extfrag(db, names),
            "end_state": _end_state(db, names),
        }

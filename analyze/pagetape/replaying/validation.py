# SPDX-License-Identifier: Apache-2.0
"""Validates the model on a tape: the model predicts every decision of the kernel, one step ahead.

At every recorded decision, the model predicts, the prediction is scored, and the model takes over
the recorded decision. A wrong prediction is therefore one miss. In a free run, it would cause
further wrong decisions.
"""

import contextlib
from pathlib import Path
from typing import Any

import pyarrow as pa

from pagetape import _replay
from pagetape.replaying import hindsight, kernels, preference, replay_span, run_ahead, validate_run
from pagetape.replaying.engine_run import Progress, naming, silent, start_tables
from pagetape.replaying.recorded_counts import SCHEMAS as COUNTED
from pagetape.replaying.run_ahead import by_row
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape, Writer
from pagetape.tapes import cache, origin, output, zone_events
from pagetape.tapes.machine import snapshot_rows

# Parts of the end state, and their counts: in the snapshot, and equal in the model.
END_STATE = (
    ("free blocks", "free_blocks", "free_blocks_same"),
    ("free blocks with the same next", "free_blocks", "successor_same"),
    ("pages on per-CPU lists", "pcp_pages", "pcp_pages_same"),
    ("pageblock types", "pageblocks", "pageblocks_same"),
)

_USES = [name for name in TABLES["recorded_use"].arrow.names if name != "ts"]

_END_TABLES = ("zone", "pageblock", "free_block", "pcp_page")


def _ahead(tape: Tape, row: str, begin: hindsight.Start | None) -> dict[str, pa.Table]:
    """The tables of the run of validate before a free run from `begin`, by their names in the
    cache."""
    if begin is None:
        return run_ahead.from_own_start(tape, row).tables
    return run_ahead.run(tape, row, hindsight.tables(tape, begin, *validate_run.INPUT)).tables


def preferences(tape: Tape) -> pa.Table:
    """The preferred node of each thread's requests: input of a free run. No rows for one node.

    The tape of a replay has the preferences that the replay took as input.
    """
    if "replay" in tape.facts:
        return tape.table("preference")
    if len(tape.facts.get("nodes") or []) < 2 or not (own := kernels.own(tape)):
        return preference.SCHEMA.empty_table()
    found = cache.stored(tape, "preference", preference.SCHEMA)
    if found is None:
        found = _ahead(tape, own.row, hindsight.start(tape))["preference"]
    policies = tape.rows("memory_policy")
    return preference.corrected(found, preference.known_preferences(tape, policies))


def _from_run_ahead(tape: Tape, name: str) -> pa.Table:
    """A table of the run before a free run, cached with the others.

    A replay has no rows: its events are complete. A recording has rows only with a start that is
    exact or built from hindsight, and the events of the free lists, which the inference needs.
    """
    begin = hindsight.start(tape)
    known = begin is not None or replay_span.exact(tape, 0) is not None
    if not known or not run_ahead.proves(tape) or not (own := kernels.own(tape)):
        return run_ahead.SCHEMAS[name].empty_table()
    found = cache.stored(tape, name, run_ahead.SCHEMAS[name])
    return _ahead(tape, own.row, begin)[name] if found is None else found


def inferred(tape: Tape) -> pa.Table:
    """Activity that later events prove, although no event recorded it: input of a free run."""
    return _from_run_ahead(tape, "inferred")


def block_mix(tape: Tape) -> pa.Table:
    """The contents of a recording's pageblocks at its end: rows of block_mix.

    An event shows the migratetype of a page, so the model that follows the record knows that of
    every page which the tape saw allocated.
    """
    return _from_run_ahead(tape, "block_mix")


def recorded_use(tape: Tape) -> pa.Table:
    """How the zones stood at a recording's requests: one row of recorded_use, or none."""
    return _from_run_ahead(tape, "recorded_use")


def recorded_counts(tape: Tape) -> dict[str, pa.Table]:
    """Counts of a recording's events, for the report metrics in place of its tables of these names;
    none if the report has to count the events."""
    found = {name: _from_run_ahead(tape, run_ahead.COUNTS + name) for name in COUNTED}
    return found if found["event_count"].num_rows else {}


def miss_rates(tape: Tape) -> dict[str, float]:
    """The share of known decisions that validate missed on a recording, from the start of a free
    run, by kind; none if it has no such run."""
    rows = _from_run_ahead(tape, "exactness").to_pylist()
    found: dict[str, float] = {}
    for decision in {row["decision"] for row in rows}:
        those = [row for row in rows if row["decision"] == decision]
        nr, exact, unknown = (sum(row[n] for row in those) for n in ("nr", "exact", "unknown"))
        if nr > unknown:
            found[decision] = (nr - exact - unknown) / (nr - unknown)
    return found


def _compare_end(engine: _replay.Validate, tape: Tape) -> None:
    """Compare the end state with the exact snapshot at the end, if the recording has one."""
    if replay_span.exact(tape, 1) is None:
        return
    for name in _END_TABLES:
        for batch in snapshot_rows(tape, name, 1):
            with naming(tape):
                engine.compare_end(name, batch)


# Parts of the end state beyond the boundary of a tape of the event set zone.
_BEYOND_ZONE = ("pcp_pages", "pcp_pages_same")


def _without_lists(totals: dict[str, Any], end: dict[str, Any] | None) -> None:
    """Null the figures of the per-CPU lists, which a tape of the event set zone does not show."""
    for _, *names in validate_run.DECISIONS:
        if names[0] not in validate_run.ZONE_DECISIONS:
            totals |= dict.fromkeys(names)
    totals |= {"inferred_untraced": None, "alloc_inferred": None}
    if end:
        end |= dict.fromkeys(_BEYOND_ZONE)


def validate(
    tape: Tape,
    kernel: str,
    out: Path | None = None,
    *,
    replace: bool = False,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Return the JSON object of `pagetape validate`; write the tape `out`, if any."""
    kernels.check(tape, kernel)
    how: dict[str, Any] = {"replace": replace, "progress": progress}
    if kernel == "auto" and (own := kernels.unproven(tape)):
        first = kernels.First(tape, own.row)
        with contextlib.suppress(kernels.Doubt):
            return _validate(tape, kernels.about_unproven(tape, own), out, judge=first, **how)
    return _validate(tape, kernels.about(tape, kernel), out, **how)


def _validate(
    tape: Tape,
    about: dict[str, Any],
    out: Path | None,
    *,
    replace: bool,
    progress: Progress,
    judge: validate_run.Judge = validate_run.accept,
) -> dict[str, Any]:
    """validate() under the row of `about`; `judge` is that of validate_run.Begin."""
    inferred_rows: list[pa.RecordBatch] = []
    use: list[dict[str, Any]] = []
    with contextlib.ExitStack() as stack:
        writer: Writer | None = None
        if out is not None:
            made = {name: about[name] for name in ("kernel", "kernel_warnings")}
            made |= {"tape": origin.as_text(tape.path.name), **origin.made_from(tape)}
            facts = tape.facts | {"validate": made}
            writer = stack.enter_context(
                output.whole_tape(out, facts, replace=replace, inputs=[tape.path])
            )
            for batch in tape.batches("lost"):
                writer.write("lost", batch)

        def sink(name: str, batch: pa.RecordBatch) -> None:
            if name == "recorded_use":
                use.extend(batch.to_pylist())
            if name == "inferred":
                inferred_rows.append(batch)
            elif writer is not None:
                writer.write(name, batch)

        begin = validate_run.Begin(start_tables(tape, *validate_run.INPUT), judge=judge)
        engine = validate_run.run(tape, about["kernel"], sink, progress, begin=begin)
        if writer is not None:
            for batch in by_row(inferred_rows).to_batches():
                writer.write("inferred", batch)
    _compare_end(engine, tape)
    totals = dict(engine.totals)
    seconds = totals.pop("loop_seconds")
    events = totals.pop("events")
    end = engine.end_state
    if zone_events.is_zone(tape):
        _without_lists(totals, end)
        use.clear()
    return {
        "tape": str(tape.path),
        **about,
        "events": events,
        "events_per_s": events / seconds if seconds else None,
        **totals,
        "unknowns": {nr: totals[unknown] for _, nr, _, unknown in validate_run.DECISIONS},
        "recorded_use": {n: use[0][n] for n in _USES} if use else None,
        "first_divergence": engine.first_divergence,
        "end_state": end,
        "hindsight": start.coverage if (start := hindsight.start(tape)) else None,
        "anomalies": engine.anomalies,
    }

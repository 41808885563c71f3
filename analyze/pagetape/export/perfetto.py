# SPDX-License-Identifier: Apache-2.0
"""A tape as a timeline for ui.perfetto.dev, in Chrome's trace event format (JSON).

Perfetto's own protobuf is smaller for millions of points. There are not as many here: page
events are counted by interval, and what is drawn one by one is rare. JSON needs no library, is
read by other viewers too, and can be looked at and compared as text.

    one process per zone        free pages, those in blocks as large as a pageblock, watermarks
    process "page allocator"    allocations, frees, pages to and from the buddy and fallbacks
                                per second, and where the tape has lost events
    one process per process     reclaim and compaction as slices of the thread they ran in,
                                fallbacks, wakeups and failed allocations as marks
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from pagetape.asking.database import Database
from pagetape.schemas import ZONES
from pagetape.schemas.tape import Tape

# Processes that no kernel has: its pids are below 1 << 22.
_MACHINE = 1 << 23
_ZONE = f"({_MACHINE} + 1 + node * {len(ZONES)} + list_position({list(ZONES)}, zone))"

_TASK = "LEFT JOIN task AS t USING (pid)"
_TGID = "coalesce(t.tgid, pid)"

# Every query below gives events of the format: ph (kind), pid and tid (track), ts and ns,
# name, args.

_THREADS = f"""
    WITH seen AS (
        SELECT pid FROM reclaim WHERE kind != 'vmstat_update'
        UNION SELECT pid FROM compaction
        UNION SELECT pid FROM event WHERE kind = 'alloc_extfrag' OR kind = 'alloc' AND pfn IS NULL
    ),
    named AS (SELECT pid, {_TGID} AS tgid, t.comm FROM seen {_TASK} WHERE t.comm IS NOT NULL)
    SELECT 'M' AS ph, tgid AS pid, pid AS tid, 0 AS ts, NULL AS ns, 'thread_name' AS name,
        {{'name': comm}} AS args
    FROM named
    UNION ALL
    SELECT 'M', n.tgid, n.tgid, 0, NULL, 'process_name', {{'name': coalesce(t.comm, n.comm)}}
    FROM (SELECT tgid, min(comm) AS comm FROM named GROUP BY tgid) AS n
    LEFT JOIN task AS t ON t.pid = n.tgid"""

_NAMES = f"""
    SELECT 'M' AS ph, {_MACHINE} AS pid, {_MACHINE} AS tid, 0 AS ts, NULL AS ns,
        'process_name' AS name, {{'name': 'page allocator'}} AS args
    UNION ALL
    SELECT DISTINCT 'M', {_ZONE}, {_ZONE}, 0, NULL, 'process_name',
        {{'name': format('node {{}} {{}}', node, zone)}}
    FROM zone"""

_ZONES = f"""
    WITH level AS (
        SELECT ts, node, zone, unnest(['free', 'free in whole pageblocks']) AS name,
            unnest([free_pages, usable_pages]) AS value
        FROM frag_index
        JOIN machine AS m USING (tape)
        WHERE page_order = m.pageblock_order AND snapshot IS NULL
        UNION ALL
        SELECT if(snapshot = 0, m.start_ts, m.end_ts), node, zone, 'free', free
        FROM zone JOIN machine AS m USING (tape)
        UNION ALL
        SELECT greatest(z.ts, m.start_ts), node, zone,
            unnest(['watermark min', 'watermark low', 'watermark high']),
            unnest([wmark_min, wmark_low, wmark_high])
        FROM zone AS z JOIN machine AS m USING (tape)
        WHERE snapshot = 0
        UNION ALL
        SELECT ts, node, zone, replace(name, 'wmark_', 'watermark '), value
        FROM parameter
        WHERE name IN ('wmark_min', 'wmark_low', 'wmark_high')
    )
    SELECT 'C' AS ph, {_ZONE} AS pid, {_ZONE} AS tid, ts, NULL AS ns, name,
        {{'pages': value}} AS args
    FROM level
    WHERE ts IS NOT NULL AND value IS NOT NULL"""

# Pages, but for fallbacks; a replay of a sweep has no rows of the others.
_RATES = f"""
    WITH counted AS (
        SELECT (ts // $bin)::BIGINT * $bin AS ts,
            CASE kind WHEN 'alloc' THEN 'allocated' WHEN 'free' THEN 'freed'
            WHEN 'alloc_zone_locked' THEN 'taken from the buddy' WHEN 'pcpu_drain'
            THEN 'drained to the buddy' ELSE 'fallbacks' END AS name,
            sum(if(kind = 'alloc_extfrag', 1, 1::BIGINT << coalesce(page_order, 0))) AS nr
        FROM event
        WHERE kind != 'free_batched' AND NOT (kind = 'alloc' AND pfn IS NULL)
        GROUP BY ALL
    ),
    every AS (
        SELECT unnest(range((start_ts // $bin)::BIGINT, (end_ts // $bin)::BIGINT + 2)) * $bin AS ts
        FROM machine
    )
    SELECT 'C' AS ph, {_MACHINE} AS pid, {_MACHINE} AS tid, ts, NULL AS ns, name,
        {{'per second': round(coalesce(nr, 0) * 1e9 / $bin)}} AS args
    FROM every CROSS JOIN (SELECT DISTINCT name FROM counted)
    LEFT JOIN counted USING (ts, name)"""

_LOST = f"""
    SELECT 'X' AS ph, {_MACHINE} AS pid, {_MACHINE} + 1 + cpu AS tid, from_ts AS ts,
        coalesce(to_ts, from_ts) - from_ts AS ns, 'lost' AS name, {{'cpu': cpu, 'events': events}}
        AS args
    FROM lost
    WHERE from_ts IS NOT NULL"""

# A run whose end the tape does not have goes on to the tape's end.
_RUNS = f"""
    WITH edge AS (
        SELECT pid, ts, "at", regexp_replace(kind, '_(begin|end)$', '') AS name,
            kind LIKE '%begin' AS begins, page_order, nr_reclaimed, NULL AS status
        FROM reclaim
        WHERE regexp_matches(kind, '^(direct|memcg|node)_reclaim_(begin|end)$')
        UNION ALL
        SELECT pid, ts, "at", 'compaction', kind = 'begin', NULL, NULL, status
        FROM compaction
        WHERE kind IN ('begin', 'end')
    ),
    run AS (
        SELECT pid, ts, name, begins, page_order,
            lead(begins) OVER thread IS NOT DISTINCT FROM FALSE AS ended,
            lead(ts) OVER thread AS next_ts,
            lead(nr_reclaimed) OVER thread AS nr_reclaimed,
            lead(status) OVER thread AS status
        FROM edge
        WINDOW thread AS (PARTITION BY pid, name ORDER BY ts, "at", begins)
    )
    SELECT 'X' AS ph, {_TGID} AS pid, pid AS tid, ts,
        if(ended, next_ts, m.end_ts) - ts AS ns, replace(name, '_', ' ') AS name,
        {{'page_order': page_order, 'nr_reclaimed': if(ended, nr_reclaimed, NULL),
        'status': if(ended, status, NULL), 'end': if(ended, NULL, 'not recorded')}} AS args
    FROM run {_TASK} CROSS JOIN machine AS m
    WHERE begins"""

# From each pass of kswapd, or waking of kcompactd, to the next or to its sleep.
_DAEMONS = f"""
    WITH edge AS (
        SELECT pid, ts, "at", kind, node, zone, page_order FROM reclaim
        WHERE kind IN ('kswapd_wake', 'kswapd_sleep')
        UNION ALL
        SELECT pid, ts, "at", kind, node, zone, page_order FROM compaction
        WHERE kind IN ('kcompactd_wake', 'kcompactd_sleep')
    ),
    turn AS (SELECT *, lead(ts) OVER (PARTITION BY pid ORDER BY ts, "at") AS next_ts FROM edge)
    SELECT 'X' AS ph, {_TGID} AS pid, pid AS tid, ts, coalesce(next_ts, m.end_ts) - ts AS ns,
        replace(kind, '_wake', '') AS name,
        {{'node': node, 'zone': zone, 'page_order': page_order}} AS args
    FROM turn {_TASK} CROSS JOIN machine AS m
    WHERE kind LIKE '%_wake'"""

_FALLBACKS = f"""
    SELECT 'i' AS ph, {_TGID} AS pid, pid AS tid, ts, NULL AS ns,
        'fallback ' || alloc_migratetype || ' from ' || fallback_migratetype AS name,
        {{'kind': f.kind, 'page_order': alloc_order, 'fallback_order': fallback_order, 'pfn': pfn,
        'cpu': cpu}} AS args
    FROM extfrag AS f {_TASK}"""

_MARKS = f"""
    WITH mark AS (
        SELECT pid, ts, replace(kind, '_', ' ') AS name, node, zone, page_order, gfp_flags,
            victim_pid, usec_delayed
        FROM reclaim
        WHERE kind IN ('wakeup_kswapd', 'mark_victim', 'throttled')
        UNION ALL
        SELECT pid, ts, 'wakeup kcompactd', node, zone, page_order, NULL, NULL, NULL
        FROM compaction
        WHERE kind = 'wakeup_kcompactd'
        UNION ALL
        SELECT pid, ts, 'allocation failed', NULL, NULL, page_order, gfp_flags, NULL, NULL
        FROM event
        WHERE kind = 'alloc' AND pfn IS NULL
    )
    SELECT 'i' AS ph, {_TGID} AS pid, pid AS tid, ts, NULL AS ns, name,
        {{'node': node, 'zone': zone, 'page_order': page_order,
        'gfp': nullif(gfp_names(gfp_flags), ''), 'victim_pid': victim_pid,
        'usec_delayed': usec_delayed}} AS args
    FROM mark {_TASK}"""

_PARTS = (_THREADS, _NAMES, _ZONES, _RATES, _LOST, _RUNS, _DAEMONS, _FALLBACKS, _MARKS)

Event = dict[str, Any]


def _event(row: dict[str, Any]) -> Event:
    """A row of a query as the format has it: times in microseconds, nothing that is unknown."""
    event: Event = {name: row[name] for name in ("ph", "pid", "tid", "name")}
    if row["ph"] != "M":
        event["ts"] = row["ts"] / 1e3
    if row["ph"] == "X":
        event["dur"] = row["ns"] / 1e3
    if row["ph"] == "i":
        event["s"] = "t"  # of the thread
    args = row["args"] or {}
    return event | {"args": {name: value for name, value in args.items() if value is not None}}


def events(
    tape: Tape, bin_ns: int, progress: Callable[[float], None] = lambda _share: None
) -> Iterator[Event]:
    """The events of the format; page events are counted by `bin_ns`."""
    with Database([tape]) as db:
        for nr, sql in enumerate(_PARTS, 1):
            ordered = f"SELECT * FROM ({sql}) ORDER BY ALL"
            found = db.ask(ordered, {"bin": bin_ns} if sql is _RATES else None)
            yield from (_event(dict(zip(found.columns, row, strict=True))) for row in found.rows)
            progress(nr / len(_PARTS))


def write(
    tape: Tape,
    file: BinaryIO,
    bin_ns: int,
    progress: Callable[[float], None] = lambda _share: None,
) -> dict[str, int]:
    """Write the timeline; how many events of which kind it has."""
    about = {name: tape.facts.get(name) for name in ("kernel", "host", "cpus")}
    nr: Counter[str] = Counter()
    file.write(f'{{"displayTimeUnit":"ns","otherData":{json.dumps(about)},"traceEvents":['.encode())
    for event in events(tape, bin_ns, progress):
        file.write(b",\n" if nr else b"\n")
        file.write(json.dumps(event, separators=(",", ":")).encode())
        nr[event["ph"]] += 1
    file.write(b"\n]}\n")
    return {"slices": nr["X"], "marks": nr["i"], "counter_values": nr["C"]}

# SPDX-License-Identifier: Apache-2.0
"""What a replay with feedback (--reclaim R1, R2) learns from the recording itself.

The frees that reclaim made, which the model's own reclaim takes instead (table
reclaimed); how long reclaim and compaction took, as quantiles (table service); and when
each kcompactd first looked for work. A recording without such events has none: reclaim
then takes no time, and has nothing.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from pagetape.asking.database import Database
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape
from pagetape.tapes import cache

_QUANTILES = 64  # SERVICE_ROWS of the engine
_POINTS = [(n + 0.5) / _QUANTILES for n in range(_QUANTILES)]

# The row number is the tape's order. `since` is the last event of the same page before.
_RECLAIMED = """
WITH placed AS (
    SELECT row_number() OVER () - 1 AS place, ts, pid, kind, pfn, page_order
    FROM event
),

page_event AS MATERIALIZED (
    SELECT place, ts, pid, kind, pfn, coalesce(page_order, 0) AS page_order
    FROM placed
    WHERE kind IN ('alloc', 'free', 'free_batched') AND pfn IS NOT NULL
),

taken AS MATERIALIZED (
    SELECT f.place, f.ts, f.kind, f.pfn, f.page_order, s.cause
    FROM page_event AS f
    JOIN reclaim_slice AS s
        ON s.pid = f.pid
        AND s.slice = (f.ts >> 22)::BIGINT
        AND f.ts BETWEEN s.from_ts AND s.until_ts
    WHERE f.kind <> 'alloc'
      AND s.cause IN ('direct', 'node_reclaim', 'compact')
    UNION ALL
    SELECT f.place, f.ts, f.kind, f.pfn, f.page_order, 'kswapd'
    FROM page_event AS f
    WHERE f.kind <> 'alloc' AND f.pid IN (SELECT pid FROM reclaim_window WHERE cause = 'kswapd')
),

touched AS (
    SELECT place, lag(place) OVER (PARTITION BY pfn ORDER BY place) AS since
    FROM page_event
    WHERE kind <> 'free_batched' AND pfn IN (SELECT pfn FROM taken)
)

SELECT t.place AS "at", t.ts, t.kind::VARCHAR AS kind, t.pfn, t.page_order, t.cause, s.since
FROM taken AS t
LEFT JOIN touched AS s USING (place)
ORDER BY t.place
"""

# Quantiles of single services; a page count of 0 where the service is not about pages.
_SERVICE = f"""
WITH step AS (
    SELECT
        r.pid,
        r.ts,
        r."at",
        r.kind,
        r.nr_reclaimed,
        sum(r.nr_scanned - r.nr_reclaimed) OVER (PARTITION BY r.pid ORDER BY r.ts, r."at") AS vain
    FROM reclaim AS r
    WHERE r.pid IN (SELECT pid FROM reclaim_window WHERE cause = 'kswapd')
      AND r.kind IN ('kswapd_wake', 'kswapd_sleep', 'lru_shrink_inactive')
),

-- What it scanned in vain is time of the pages that it found next. A page each counts alike.
shrink AS (
    SELECT
        kind,
        nr_reclaimed,
        ts - lag(ts) OVER its AS ns,
        coalesce(vain - lag(vain) OVER its, 0) AS vain,
        lag(kind) OVER its AS before
    FROM step
    WHERE kind <> 'lru_shrink_inactive' OR nr_reclaimed > 0
    WINDOW its AS (PARTITION BY pid ORDER BY ts, "at")
),

daemon AS (
    SELECT pid FROM compaction WHERE kind IN ('kcompactd_wake', 'kcompactd_sleep')
),

run AS (
    SELECT
        CASE WHEN w.pid IN (FROM daemon) THEN 'compaction' ELSE 'direct_compaction' END AS what,
        w.pid,
        w.from_ts,
        w.until_ts,
        coalesce(sum(m.nr_migrated), 0) AS moved,
        coalesce(sum(m.nr_failed), 0) AS failed
    FROM reclaim_window AS w
    LEFT JOIN compaction AS m
        ON m.kind = 'migratepages' AND m.pid = w.pid AND m.ts BETWEEN w.from_ts AND w.until_ts
    WHERE w.cause = 'compact' AND w.ended
    GROUP BY ALL
),

-- Several tasks may call until it runs; it waited since the first.
call AS (
    SELECT node, ts, "at", kind
    FROM (
        SELECT *, lag(kind) OVER (PARTITION BY node ORDER BY ts, "at") AS before
        FROM reclaim
        WHERE kind IN ('wakeup_kswapd', 'kswapd_wake')
    )
    WHERE kind = 'kswapd_wake' OR before IS DISTINCT FROM kind
),

woken AS (
    SELECT kind, ts - lag(ts) OVER its AS ns, lag(kind) OVER its AS before
    FROM call
    WINDOW its AS (PARTITION BY node ORDER BY ts, "at")
),

served AS (
    SELECT
        'kswapd' AS what,
        ns * 32 / nr_reclaimed AS ns,
        32 AS moved,
        vain * 32 / nr_reclaimed AS failed
    FROM shrink
    CROSS JOIN unnest(range(nr_reclaimed))
    WHERE kind = 'lru_shrink_inactive' AND before <> 'kswapd_sleep'
    UNION ALL
    SELECT 'direct', w.until_ts - w.from_ts, coalesce(r.nr_reclaimed, 0), 0
    FROM reclaim_window AS w
    JOIN reclaim AS r
        ON r.kind = 'direct_reclaim_end' AND r.tape = w.tape AND r.pid = w.pid AND r.ts = w.until_ts
    WHERE w.cause = 'direct' AND w.ended
    UNION ALL
    SELECT what, until_ts - from_ts, moved, failed
    FROM run
    UNION ALL
    SELECT 'wake', ns, 0, 0
    FROM woken
    WHERE kind = 'kswapd_wake' AND before = 'wakeup_kswapd'
)

SELECT
    what,
    unnest(quantile_disc(ns, {_POINTS}))::UBIGINT AS ns,
    unnest(quantile_disc(moved, {_POINTS}))::UBIGINT AS moved,
    round(
        unnest(quantile_disc(moved, {_POINTS})) * coalesce(sum(failed) / nullif(sum(moved), 0), 0)
    )::UBIGINT AS failed
FROM served
GROUP BY what
ORDER BY ALL
"""


_LOOKS = ("kcompactd_sleep", "kcompactd_wake", "wakeup_kcompactd")


def _ask(tape: Tape, name: str, sql: str) -> pa.Table:
    table = TABLES[name]

    def make() -> pa.Table:
        with Database([tape]) as db:
            return db.rows(table, sql)

    return cache.table(tape, name, table.arrow, make)


def _looks(tape: Tape) -> pa.Table:
    """What each kcompactd did, without its work."""
    rows = [
        batch.filter(pc.is_in(batch["kind"].cast(pa.string()), pa.array(_LOOKS)))
        for batch in tape.batches("compaction")
    ]
    return pa.Table.from_batches(rows, TABLES["compaction"].arrow)


def learn(tape: Tape) -> dict[str, pa.Table]:
    """What the recording tells of reclaim, by table; of a replay, nothing."""
    if "replay" in tape.facts:
        return {}
    return {
        "reclaimed": _ask(tape, "reclaimed", _RECLAIMED),
        "service": _ask(tape, "service", _SERVICE),
        "compaction": _looks(tape),
    }

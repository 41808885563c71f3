-- Stretches of time in which a thread reclaims or compacts, one row each.
--
-- A run of direct, node or memory control group reclaim, or of compaction, lasts from its
-- begin to its end. A run whose begin or end is not on the tape is open on that side. A
-- kswapd reclaims whenever it runs.
--
-- Columns:
--   tape      VARCHAR  Name of the tape.
--   pid       INTEGER  Thread.
--   from_ts   UBIGINT  First moment, trace clock in ns; 0 if it is not on the tape.
--   until_ts  UBIGINT  Last moment; the largest UBIGINT if it is not on the tape.
--   ended     BOOLEAN  Both moments are on the tape.
--   cause     VARCHAR  kswapd, direct, node_reclaim, memcg or compact.
WITH edge AS (
    SELECT
        tape,
        pid,
        ts,
        "at",
        kind LIKE '%begin' AS begins,
        CASE split_part(kind, '_', 1) WHEN 'node' THEN 'node_reclaim' ELSE split_part(kind, '_', 1) END AS cause
    FROM reclaim
    WHERE kind IN (
        'direct_reclaim_begin', 'direct_reclaim_end', 'node_reclaim_begin', 'node_reclaim_end',
        'memcg_reclaim_begin', 'memcg_reclaim_end'
    )
    UNION ALL
    SELECT tape, pid, ts, "at", kind = 'begin', 'compact'
    FROM compaction
    WHERE kind IN ('begin', 'end')
),

paired AS (
    SELECT
        tape,
        pid,
        ts,
        begins,
        cause,
        lag(begins) OVER thread AS after_begin,
        lead(begins) OVER thread AS before_begin,
        lead(ts) OVER thread AS next_ts
    FROM edge
    WINDOW thread AS (PARTITION BY tape, pid, cause ORDER BY ts, "at", begins)
),

kswapd AS (
    SELECT tape, pid FROM reclaim WHERE kind IN ('kswapd_wake', 'kswapd_sleep')
    UNION
    SELECT tape, pid FROM task WHERE kthread AND comm LIKE 'kswapd%'
)

SELECT
    tape,
    pid,
    CASE WHEN begins THEN ts ELSE 0::UBIGINT END AS from_ts,
    CASE WHEN NOT begins THEN ts WHEN NOT before_begin THEN next_ts ELSE 18446744073709551615::UBIGINT END AS until_ts,
    begins AND before_begin IS NOT DISTINCT FROM false AS ended,
    cause
FROM paired
ANTI JOIN kswapd USING (tape, pid)
WHERE begins OR after_begin IS NULL
UNION ALL
SELECT tape, pid, 0::UBIGINT, 18446744073709551615::UBIGINT, false, 'kswapd'
FROM kswapd

-- Stretches of time in which a thread reclaims or compacts, one row each.
--
-- A run of direct, node or memory control group reclaim, or of compaction, lasts from its
-- begin to its end. A run whose begin or end is not on the tape (lost, or outside of the
-- recording) lasts as far as the thread's neighbouring begin or end, or alloc: a thread that
-- reclaims waits for its page. A kswapd reclaims whenever it runs.
--
-- Columns:
--   tape      VARCHAR  Name of the tape.
--   pid       INTEGER  Thread.
--   from_ts   UBIGINT  First moment, trace clock in ns; 0 if nothing on the tape limits it.
--   until_ts  UBIGINT  Last moment; the largest UBIGINT if nothing on the tape limits it.
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
        lag(ts) OVER thread AS last_ts,
        lead(ts) OVER thread AS next_ts
    FROM edge
    WINDOW thread AS (PARTITION BY tape, pid, cause ORDER BY ts, "at", begins)
),

kswapd AS (
    SELECT tape, pid FROM reclaim WHERE kind IN ('kswapd_wake', 'kswapd_sleep')
    UNION
    SELECT tape, pid FROM task WHERE kthread AND comm LIKE 'kswapd%'
),

run AS (
    SELECT *, begins AND before_begin IS NOT DISTINCT FROM false AS ended
    FROM paired
    ANTI JOIN kswapd USING (tape, pid)
    WHERE begins OR after_begin IS DISTINCT FROM true
),

alloc AS (
    SELECT tape, pid, ts
    FROM event
    WHERE kind = 'alloc' AND (tape, pid) IN (SELECT (tape, pid) FROM run WHERE NOT ended)
),

begun AS (
    SELECT r.*, a.ts AS alloc_ts
    FROM (FROM run WHERE NOT ended AND begins) AS r
    ASOF LEFT JOIN alloc AS a ON a.tape = r.tape AND a.pid = r.pid AND a.ts > r.ts
),

stopped AS (
    SELECT r.*, a.ts AS alloc_ts
    FROM (FROM run WHERE NOT begins) AS r
    ASOF LEFT JOIN alloc AS a ON a.tape = r.tape AND a.pid = r.pid AND a.ts < r.ts
)

SELECT tape, pid, ts AS from_ts, next_ts AS until_ts, ended, cause
FROM run
WHERE ended
UNION ALL
SELECT tape, pid, ts, least(next_ts, alloc_ts, 18446744073709551615::UBIGINT), ended, cause
FROM begun
UNION ALL
SELECT tape, pid, greatest(last_ts, alloc_ts, 0::UBIGINT), ts, ended, cause
FROM stopped
UNION ALL
SELECT tape, pid, 0::UBIGINT, 18446744073709551615::UBIGINT, false, 'kswapd'
FROM kswapd

-- Stretches of time in which a thread reclaims or compacts, one row each.
--
-- A run of direct, node or memory control group reclaim, or of compaction, lasts from its
-- begin to its end. A run whose begin or end is not on the tape (lost, or outside of the
-- recording) lasts as far as the thread's neighbouring begin or end, or alloc: a thread that
-- reclaims waits for its page. A kswapd reclaims whenever it runs. View compaction_run says who
-- asked for a compaction.
--
-- Columns:
--   tape      VARCHAR  Name of the tape.
--   pid       INTEGER  Thread.
--   from_ts   UBIGINT  First moment, trace clock in ns; 0 if nothing on the tape limits it.
--   until_ts  UBIGINT  Last moment; the largest UBIGINT if nothing on the tape limits it.
--   ended     BOOLEAN  Both moments are on the tape.
--   cause     VARCHAR  kswapd, direct, node_reclaim, memcg or compact.
--   who       VARCHAR  Of compact: direct, kcompactd, proactive, explicit or unknown; null for reclaim.
--   waits     BOOLEAN  A request of the thread waits for it. False for kswapd, kcompactd and khugepaged,
--                      for compaction that no allocation asked for, and for node reclaim with
--                      vm.zone_reclaim_mode 0: a task asked for it through
--                      /sys/devices/system/node/node*/reclaim.
WITH edge AS (
    SELECT
        tape,
        pid,
        ts,
        "at",
        kind LIKE '%begin' AS begins,
        CASE split_part(kind, '_', 1) WHEN 'node' THEN 'node_reclaim' ELSE split_part(kind, '_', 1) END AS cause,
        NULL AS daemon
    FROM reclaim
    WHERE kind IN (
        'direct_reclaim_begin', 'direct_reclaim_end', 'node_reclaim_begin', 'node_reclaim_end',
        'memcg_reclaim_begin', 'memcg_reclaim_end'
    )
    UNION ALL
    -- The daemons of a replay have pid 0, on every node.
    SELECT tape, pid, ts, "at", kind = 'begin', 'compact', if(pid = 0, node, NULL)
    FROM compaction
    WHERE kind IN ('begin', 'end')
),

daemon AS (
    SELECT tape, pid FROM compaction WHERE kind IN ('kcompactd_wake', 'kcompactd_sleep')
    UNION
    SELECT tape, pid FROM task WHERE kthread AND (comm LIKE 'kcompactd%' OR comm LIKE 'khugepaged%')
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
    WINDOW thread AS (PARTITION BY tape, pid, cause, daemon ORDER BY ts, "at", begins)
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
),

stretch AS (
    SELECT tape, pid, ts AS edge_ts, ts AS from_ts, next_ts AS until_ts, ended, cause
    FROM run
    WHERE ended
    UNION ALL
    SELECT tape, pid, ts, ts, least(next_ts, alloc_ts, 18446744073709551615::UBIGINT), ended, cause
    FROM begun
    UNION ALL
    SELECT tape, pid, ts, greatest(last_ts, alloc_ts, 0::UBIGINT), ts, ended, cause
    FROM stopped
)

SELECT
    s.tape,
    s.pid,
    s.from_ts,
    s.until_ts,
    s.ended,
    s.cause,
    c.who,
    d.pid IS NULL AND CASE s.cause
        WHEN 'compact' THEN c.who IS NOT DISTINCT FROM 'direct'
        WHEN 'node_reclaim' THEN m.zone_reclaim_mode IS DISTINCT FROM 0
        ELSE true
    END AS waits
FROM stretch AS s
JOIN machine AS m USING (tape)
LEFT JOIN daemon AS d ON d.tape = s.tape AND d.pid = s.pid
LEFT JOIN (SELECT tape, pid, coalesce(from_ts, until_ts) AS edge_ts, any_value(who) AS who FROM compaction_run GROUP BY ALL) AS c
    ON s.cause = 'compact' AND c.tape = s.tape AND c.pid = s.pid AND c.edge_ts = s.edge_ts
UNION ALL
SELECT tape, pid, 0::UBIGINT, 18446744073709551615::UBIGINT, false, 'kswapd', NULL, false
FROM kswapd

-- Time that tasks waited in reclaim and compaction, its causes and its victims.
--
-- A stall is a stretch of direct reclaim, node or memory control group reclaim, compaction, or a
-- throttled sleep, of a thread that is not kswapd, kcompactd or khugepaged. Stretches of one thread
-- may overlap. `some_s` is the time in which at least one thread stalled, as `some` of
-- /proc/pressure counts.
--
-- Columns:
--   nr            BIGINT   Stalls whose begin and end are on the tape.
--   some_s        DOUBLE   Time with at least one stall, in seconds.
--   total_s       DOUBLE   Sum of all stalls, in seconds.
--   max_ms        DOUBLE   Longest stall, in ms.
--   p99_ms        DOUBLE   99th percentile, in ms.
--   direct_s      DOUBLE   Of total_s, direct reclaim.
--   compact_s     DOUBLE   Of total_s, compaction.
--   memcg_s       DOUBLE   Of total_s, reclaim of a memory control group.
--   node_s        DOUBLE   Of total_s, node reclaim.
--   throttled_s   DOUBLE   Of total_s, throttled sleeps.
--   high_order_s  DOUBLE   Of direct_s, direct reclaim for an order above 0.
--   direct_nr     BIGINT   Direct reclaims that ended.
--   vain          BIGINT   Of these, direct reclaims that freed nothing.
--   reclaimed     BIGINT   Pages that direct reclaims freed.
--   task          VARCHAR  Task that waited longest in total.
--   task_s        DOUBLE   Its stalls, in seconds.
WITH daemon AS (
    SELECT tape, pid FROM compaction WHERE kind IN ('kcompactd_wake', 'kcompactd_sleep')
    UNION
    SELECT tape, pid FROM task WHERE kthread AND (comm LIKE 'kcompactd%' OR comm LIKE 'khugepaged%')
),

stretch AS MATERIALIZED (
    SELECT tape, pid, cause, from_ts, until_ts, (until_ts - from_ts)::DOUBLE / 1e9 AS s
    FROM (
        SELECT tape, pid, cause, from_ts, until_ts
        FROM reclaim_window
        WHERE ended AND until_ts >= from_ts
        UNION ALL
        SELECT tape, pid, 'throttled', greatest(ts::HUGEINT - usec_delayed * 1000, 0)::UBIGINT, ts
        FROM reclaim
        WHERE kind = 'throttled' AND usec_delayed >= 0
    )
    ANTI JOIN daemon USING (tape, pid)
),

joined AS (
    SELECT
        from_ts,
        until_ts,
        max(until_ts) OVER (
            ORDER BY from_ts, until_ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS reach
    FROM stretch
),

pressed AS (
    SELECT coalesce(sum(greatest(until_ts::HUGEINT - greatest(from_ts, coalesce(reach, from_ts))::HUGEINT, 0)), 0)
        / 1e9 AS s
    FROM joined
),

direct AS (
    SELECT
        count(*) AS nr,
        count(*) FILTER (e.nr_reclaimed = 0) AS vain,
        sum(e.nr_reclaimed) AS reclaimed,
        coalesce(sum(w.s) FILTER (b.page_order > 0), 0) AS high_order_s
    FROM stretch AS w
    JOIN reclaim AS e
        ON e.kind = 'direct_reclaim_end' AND e.tape = w.tape AND e.pid = w.pid AND e.ts = w.until_ts
    JOIN reclaim AS b
        ON b.kind = 'direct_reclaim_begin' AND b.tape = w.tape AND b.pid = w.pid AND b.ts = w.from_ts
    WHERE w.cause = 'direct'
),

by_task AS (
    SELECT coalesce(t.comm, w.pid::VARCHAR) AS task, sum(w.s) AS task_s
    FROM stretch AS w
    LEFT JOIN task AS t USING (tape, pid)
    GROUP BY coalesce(t.comm, w.pid::VARCHAR)
    ORDER BY task_s DESC, task
    LIMIT 1
),

summed AS (
    SELECT
        count(*) AS nr,
        coalesce(sum(s), 0) AS total_s,
        max(s) * 1e3 AS max_ms,
        quantile_cont(s, 0.99) * 1e3 AS p99_ms,
        coalesce(sum(s) FILTER (cause = 'direct'), 0) AS direct_s,
        coalesce(sum(s) FILTER (cause = 'compact'), 0) AS compact_s,
        coalesce(sum(s) FILTER (cause = 'memcg'), 0) AS memcg_s,
        coalesce(sum(s) FILTER (cause = 'node_reclaim'), 0) AS node_s,
        coalesce(sum(s) FILTER (cause = 'throttled'), 0) AS throttled_s
    FROM stretch
)

SELECT
    a.nr,
    p.s::DOUBLE AS some_s,
    a.total_s,
    a.max_ms,
    a.p99_ms,
    a.direct_s,
    a.compact_s,
    a.memcg_s,
    a.node_s,
    a.throttled_s,
    d.high_order_s,
    d.nr AS direct_nr,
    d.vain,
    d.reclaimed::BIGINT AS reclaimed,
    t.task,
    t.task_s
FROM summed AS a
CROSS JOIN pressed AS p
CROSS JOIN direct AS d
LEFT JOIN by_task AS t ON true

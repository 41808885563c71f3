-- Time that tasks waited in reclaim and compaction, its causes and its victims.
--
-- A stall is a stretch of direct reclaim, node or memory control group reclaim, compaction, or a
-- throttled sleep, that a request of the thread waits for (view stall_length). Stretches of one thread
-- that touch are one stall; the times by cause may overlap. `some_s` is the time in which at least one thread stalled, as `some` of
-- /proc/pressure counts.
--
-- Columns:
--   nr            BIGINT   Stalls whose begin and end are on the tape.
--   some_s        DOUBLE   Time with at least one stall, in seconds.
--   total_s       DOUBLE   Sum of all stalls, in seconds.
--   max_ms        DOUBLE   Longest stall, in ms.
--   p99_ms        DOUBLE   99th percentile, in ms.
--   direct_s      DOUBLE   Time in direct reclaim.
--   compact_s     DOUBLE   Time in compaction.
--   memcg_s       DOUBLE   Time in reclaim of a memory control group.
--   node_s        DOUBLE   Time in node reclaim.
--   throttled_s   DOUBLE   Time in throttled sleeps.
--   high_order_s  DOUBLE   Of direct_s, direct reclaim for an order above 0.
--   direct_nr     BIGINT   Direct reclaims that ended.
--   vain          BIGINT   Of these, direct reclaims that freed nothing.
--   reclaimed     BIGINT   Pages that direct reclaims freed.
--   task          VARCHAR  Task that waited longest in total.
--   task_s        DOUBLE   Its stalls, in seconds.
--   task_cgroup   VARCHAR  Its control group; null if unknown.
WITH waited AS MATERIALIZED (
    SELECT tape, pid, what AS cause, from_ts, until_ts, (until_ts - from_ts)::HUGEINT AS ns FROM stall_length
),

stretch AS (
    SELECT * FROM waited WHERE cause <> 'any'
),

stall AS (
    SELECT * FROM waited WHERE cause = 'any'
),

joined AS (
    SELECT
        from_ts,
        until_ts,
        max(until_ts) OVER (
            ORDER BY from_ts, until_ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS reach
    FROM stall
),

pressed AS (
    SELECT coalesce(sum(greatest(until_ts::HUGEINT - greatest(from_ts, coalesce(reach, from_ts))::HUGEINT, 0)), 0)
        / 1e9 AS s
    FROM joined
),

direct AS (
    SELECT
        count(*) AS nr,
        count(*) FILTER (nr_reclaimed = 0) AS vain,
        sum(nr_reclaimed) AS reclaimed
    FROM reclaim
    WHERE kind = 'direct_reclaim_end'
),

high_order AS (
    SELECT coalesce(sum(w.ns), 0) / 1e9 AS s
    FROM stretch AS w
    SEMI JOIN (SELECT * FROM reclaim WHERE kind = 'direct_reclaim_begin' AND page_order > 0) AS b
        ON b.tape = w.tape AND b.pid = w.pid AND b.ts = w.from_ts
    WHERE w.cause = 'direct'
),

by_task AS (
    SELECT coalesce(t.comm, w.pid::VARCHAR) AS task, arg_max(t.cgroup, w.ns) AS task_cgroup, sum(w.ns) / 1e9 AS task_s
    FROM stall AS w
    LEFT JOIN task AS t USING (tape, pid)
    GROUP BY coalesce(t.comm, w.pid::VARCHAR)
    ORDER BY task_s DESC, task
    LIMIT 1
),

length AS (
    SELECT
        count(*) AS nr,
        coalesce(sum(ns), 0) / 1e9 AS total_s,
        max(ns) / 1e6 AS max_ms,
        quantile_cont(ns::DOUBLE, 0.99) / 1e6 AS p99_ms
    FROM stall
),

summed AS (
    SELECT
        coalesce(sum(ns) FILTER (cause = 'direct'), 0) / 1e9 AS direct_s,
        coalesce(sum(ns) FILTER (cause = 'compact'), 0) / 1e9 AS compact_s,
        coalesce(sum(ns) FILTER (cause = 'memcg'), 0) / 1e9 AS memcg_s,
        coalesce(sum(ns) FILTER (cause = 'node_reclaim'), 0) / 1e9 AS node_s,
        coalesce(sum(ns) FILTER (cause = 'throttled'), 0) / 1e9 AS throttled_s
    FROM stretch
)

SELECT
    a.*,
    l.nr,
    p.s::DOUBLE AS some_s,
    l.total_s,
    l.max_ms,
    l.p99_ms,
    h.s AS high_order_s,
    d.nr AS direct_nr,
    d.vain,
    d.reclaimed::BIGINT AS reclaimed,
    t.task,
    t.task_s,
    t.task_cgroup
FROM length AS l
CROSS JOIN summed AS a
CROSS JOIN pressed AS p
CROSS JOIN direct AS d
CROSS JOIN high_order AS h
LEFT JOIN by_task AS t ON true

-- Time that allocations waited for direct reclaim and compaction, by order and task.
--
-- No event marks the begin of an allocation. What a tape can measure is the time between the
-- begin and end events of direct reclaim, node reclaim and direct compaction that a thread ran before its next
-- allocation event. All such stretches before one allocation are one wait. The fast path, waits for locks, and sleeps outside of
-- these events are not in it: the true latency is that, or longer. Allocations without a stretch
-- took the fast path or only woke kswapd; they are in `allocs`, and not in the percentiles.
--
-- Stretches without begin or end on the tape are left out, and so are kswapd, kcompactd, khugepaged, reclaim of memory control groups,
-- compaction and node reclaim that a task asked for through /proc or /sys (see compaction.results), and
-- a stretch of direct reclaim for another order than the next allocation's. In a replay the waits are those of the model.
--
-- Needs: event.alloc, reclaim.direct_reclaim_begin or compaction.begin
-- Tier: B
--
-- Parameters:
--   top  BIGINT 0..1000000000 = 25  Maximum number of rows.
--
-- Columns:
--   page_order       UTINYINT  Order.
--   comm             VARCHAR   Thread, or its pid if the name is unknown.
--   cgroup           VARCHAR   Its control group, if known.
--   allocs           BIGINT    Allocations outside of interrupts, waiting or not.
--   waited           BIGINT    Of these, allocations that waited.
--   waited_percent   DOUBLE    waited of allocs, in percent; normal is 0.
--   failed           BIGINT    Waits that ended without a page.
--   total_ms         DOUBLE    Sum of the waits, in ms.
--   reclaim_ms       DOUBLE    Of these, direct and node reclaim, in ms.
--   compact_ms       DOUBLE    Of these, compaction, in ms.
--   p50_us           DOUBLE    Median wait, in us.
--   p95_us           DOUBLE    95th percentile, in us.
--   p99_us           DOUBLE    99th percentile, in us.
--   max_us           DOUBLE    Longest wait, in us.
--   worst_at_s       DOUBLE    End of the longest wait, seconds after the tape's first event.
WITH asked AS (
    SELECT tape, pid, ts, max(page_order)::INTEGER AS page_order
    FROM reclaim
    WHERE kind = 'direct_reclaim_begin'
    GROUP BY tape, pid, ts
),

stretch AS MATERIALIZED (
    SELECT w.tape, w.pid, w.from_ts, w.until_ts, w.cause = 'compact' AS compacts, a.page_order
    FROM reclaim_window AS w
    LEFT JOIN asked AS a ON a.tape = w.tape AND a.pid = w.pid AND a.ts = w.from_ts AND w.cause = 'direct'
    WHERE w.ended AND w.waits AND w.until_ts >= w.from_ts AND w.cause IN ('direct', 'node_reclaim', 'compact')
),

request AS (
    SELECT tape, pid, ts, page_order, pfn IS NULL AS fails
    FROM event
    WHERE kind = 'alloc' AND (flags & 6) = 0
),

wait AS (
    SELECT
        s.tape,
        r.pid,
        r.ts,
        any_value(r.page_order) AS page_order,
        any_value(r.fails) AS fails,
        sum((s.until_ts - s.from_ts)::DOUBLE) AS ns,
        coalesce(sum((s.until_ts - s.from_ts)::DOUBLE) FILTER (s.compacts), 0) AS compact_ns
    FROM stretch AS s
    ASOF JOIN (
        SELECT pid, ts, page_order, fails FROM request WHERE pid IN (SELECT DISTINCT pid FROM stretch)
    ) AS r
        ON r.pid = s.pid AND r.ts >= s.until_ts
    WHERE s.page_order IS NULL OR s.page_order < 0 OR s.page_order = r.page_order
    GROUP BY s.tape, r.pid, r.ts
),

waited AS (
    SELECT
        w.page_order,
        coalesce(t.comm, w.pid::VARCHAR) AS comm,
        t.cgroup,
        count(*) AS waited,
        count(*) FILTER (w.fails) AS failed,
        sum(w.ns) AS ns,
        sum(w.compact_ns) AS compact_ns,
        quantile_cont(w.ns, [0.5, 0.95, 0.99]) AS quantiles,
        max(w.ns) AS most_ns,
        arg_max(w.ts, w.ns) AS worst_ts,
        any_value(m.start_ts) AS start_ts
    FROM wait AS w
    JOIN machine AS m USING (tape)
    LEFT JOIN task AS t USING (tape, pid)
    GROUP BY ALL
),

every AS (
    SELECT r.page_order, coalesce(t.comm, r.pid::VARCHAR) AS comm, t.cgroup, sum(r.nr)::BIGINT AS allocs
    FROM (SELECT tape, pid, page_order, count(*) AS nr FROM request GROUP BY ALL) AS r
    LEFT JOIN task AS t USING (tape, pid)
    GROUP BY ALL
)

SELECT
    w.*,
    e.allocs,
    round(100 * w.waited / e.allocs, 3) AS waited_percent,
    round(w.ns / 1e6, 3) AS total_ms,
    round((w.ns - w.compact_ns) / 1e6, 3) AS reclaim_ms,
    round(w.compact_ns / 1e6, 3) AS compact_ms,
    round(w.quantiles[1] / 1e3, 1) AS p50_us,
    round(w.quantiles[2] / 1e3, 1) AS p95_us,
    round(w.quantiles[3] / 1e3, 1) AS p99_us,
    round(w.most_ns / 1e3, 1) AS max_us,
    round((w.worst_ts::BIGINT - w.start_ts::BIGINT) / 1e9, 3) AS worst_at_s
FROM waited AS w
JOIN every AS e
    ON e.page_order = w.page_order
    AND e.comm = w.comm
    AND e.cgroup IS NOT DISTINCT FROM w.cgroup
ORDER BY w.ns DESC, w.page_order, w.comm, w.cgroup
LIMIT $top::BIGINT

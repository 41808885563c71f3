-- How long allocations waited for reclaim and compaction: p50, p95, p99, max.
--
-- The columns follow simoop, but each value is a single stall: compare ratios between
-- policies, not values with simoop's. Each row is one kind of waiting. `any` merges the
-- overlapping stalls of a thread: the time that the thread lost. Runs without begin or end on
-- the tape have no length and are left out, as are kswapd and kcompactd.
-- On a replayed tape these are the model's stalls: its reclaim takes the recorded times.
-- Kernel threads, such as writeback and loop devices, are counted apart from tasks.
--
-- Tier: B
--
-- Columns:
--   what      VARCHAR  direct, node_reclaim, memcg, compact, throttled; any is their union.
--   class     VARCHAR  task, or kthread for kernel threads.
--   nr        BIGINT   Number of stalls.
--   total_us  DOUBLE   Total time of all stalls.
--   p50_us    DOUBLE   Half of the stalls were shorter.
--   p95_us    DOUBLE   5 % of the stalls were longer.
--   p99_us    DOUBLE   1 % of the stalls were longer.
--   max_us    DOUBLE   The longest stall.
WITH daemon AS (
    SELECT tape, pid FROM compaction WHERE kind IN ('kcompactd_wake', 'kcompactd_sleep')
    UNION
    SELECT tape, pid FROM task WHERE kthread AND (comm LIKE 'kcompactd%' OR comm LIKE 'khugepaged%')
),

kthread AS (
    SELECT DISTINCT tape, pid FROM task WHERE kthread
),

wait AS (
    SELECT tape, pid, cause AS what, from_ts, until_ts
    FROM reclaim_window
    ANTI JOIN daemon USING (tape, pid)
    WHERE ended
    UNION ALL
    SELECT tape, pid, 'throttled', greatest(ts::HUGEINT - usec_delayed * 1000, 0)::UBIGINT, ts
    FROM reclaim
    WHERE kind = 'throttled'
),

stall AS (
    SELECT w.*, CASE WHEN k.pid IS NULL THEN 'task' ELSE 'kthread' END AS class
    FROM wait AS w
    LEFT JOIN kthread AS k USING (tape, pid)
),

-- A stall begins a new union where it does not touch any that began before it.
marked AS (
    SELECT
        tape,
        pid,
        class,
        from_ts,
        until_ts,
        coalesce(
            from_ts > max(until_ts) OVER (
                PARTITION BY tape, pid ORDER BY from_ts, until_ts
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ),
            true
        ) AS begins
    FROM stall
),

numbered AS (
    SELECT
        tape,
        pid,
        class,
        from_ts,
        until_ts,
        count(*) FILTER (begins) OVER (PARTITION BY tape, pid ORDER BY from_ts, until_ts) AS number
    FROM marked
),

length AS (
    SELECT what, class, (until_ts - from_ts) / 1e3 AS us FROM stall
    UNION ALL
    SELECT 'any', class, (max(until_ts) - min(from_ts)) / 1e3
    FROM numbered
    GROUP BY tape, pid, class, number
)

SELECT
    what,
    class,
    count(*) AS nr,
    round(sum(us), 1) AS total_us,
    round(quantile_cont(us, 0.5), 1) AS p50_us,
    round(quantile_cont(us, 0.95), 1) AS p95_us,
    round(quantile_cont(us, 0.99), 1) AS p99_us,
    round(max(us), 1) AS max_us
FROM length
GROUP BY what, class
ORDER BY what = 'any', what, class

-- How long allocations waited for reclaim and compaction: p50, p95, p99, max.
--
-- The form is that of simoop, but of single stalls: compare ratios between policies, not
-- the values with simoop's. Each row is one kind of waiting; `any` joins what overlaps of
-- one thread, which is what the thread lost. Runs whose begin or end is not on the tape
-- have no length and are left out, as is what kswapd and kcompactd do on their own time.
-- On a replayed tape these are the model's stalls: its reclaim takes the recorded times.
-- Threads of the kernel, such as writeback and loop devices, are counted apart from tasks.
--
-- Tier: B
--
-- Columns:
--   what      VARCHAR  direct, node_reclaim, memcg, compact, throttled; any is their union.
--   class     VARCHAR  Whose: task, or kthread for threads of the kernel.
--   nr        BIGINT   How many stalls.
--   total_us  DOUBLE   Time in all of them.
--   p50_us    DOUBLE   Half of them were shorter.
--   p95_us    DOUBLE   One in twenty was longer.
--   p99_us    DOUBLE   One in a hundred was longer.
--   max_us    DOUBLE   The longest.
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

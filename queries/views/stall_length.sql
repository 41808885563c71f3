-- Stalls of threads that waited for reclaim and compaction, one row each.
--
-- `any` merges the overlapping stalls of a thread: the time that the thread lost. Runs without begin or end on the tape
-- have no row, because their duration is unknown. The report reclaim.stalls says which waits count.
--
-- Columns:
--   tape   VARCHAR  Name of the tape.
--   what   VARCHAR  direct, node_reclaim, memcg, compact, throttled; any is their union.
--   class  VARCHAR  task, or kthread for kernel threads.
--   us     DOUBLE   Length, in us.
WITH kthread AS (
    SELECT DISTINCT tape, pid FROM task WHERE kthread
),

wait AS (
    SELECT tape, pid, cause AS what, from_ts, until_ts
    FROM reclaim_window
    WHERE ended AND waits
    UNION ALL
    SELECT tape, pid, 'throttled', greatest(ts::HUGEINT - usec_delayed * 1000, 0)::UBIGINT, ts
    FROM reclaim
    WHERE kind = 'throttled'
),

known AS (
    SELECT w.*, CASE WHEN k.pid IS NULL THEN 'task' ELSE 'kthread' END AS class
    FROM wait AS w
    LEFT JOIN kthread AS k USING (tape, pid)
),

-- A stall that touches no earlier stall begins a new union.
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
    FROM known
),

numbered AS (
    SELECT
        tape,
        pid,
        class,
        from_ts,
        until_ts,
        count(if(begins, 1, NULL)) OVER (PARTITION BY tape, pid ORDER BY from_ts, until_ts) AS number
    FROM marked
)

SELECT tape, what, class, (until_ts - from_ts) / 1e3 AS us FROM known
UNION ALL
SELECT tape, 'any', class, (max(until_ts) - min(from_ts)) / 1e3
FROM numbered
GROUP BY tape, pid, class, number

-- Stalls of threads that waited for reclaim and compaction, one row each.
--
-- `any` merges the overlapping stalls of a thread: the time that the thread lost. Runs without begin or end on the tape
-- have no row, because their duration is unknown. The report reclaim.stalls says which waits count.
--
-- Columns:
--   tape      VARCHAR  Name of the tape.
--   pid       INTEGER  Thread.
--   what      VARCHAR  direct, node_reclaim, memcg, compact, throttled; any is their union.
--   from_ts   UBIGINT  Begin, trace clock in ns.
--   until_ts  UBIGINT  End.
--   class     VARCHAR  task, or kthread for kernel threads.
--   us        DOUBLE   Length, in us.
WITH kthread AS (
    SELECT DISTINCT tape, pid FROM task WHERE kthread
),

wait AS (
    SELECT tape, pid, cause AS what, from_ts, until_ts
    FROM reclaim_window
    WHERE ended AND waits AND until_ts >= from_ts
    UNION ALL
    SELECT tape, pid, 'throttled', greatest(ts::HUGEINT - usec_delayed * 1000, 0)::UBIGINT, ts
    FROM reclaim
    WHERE kind = 'throttled' AND usec_delayed >= 0
),

known AS (
    SELECT w.*, CASE WHEN k.pid IS NULL THEN 'task' ELSE 'kthread' END AS class
    FROM wait AS w
    LEFT JOIN kthread AS k USING (tape, pid)
),

-- A stall that touches no earlier stall begins a new union.
marked AS (
    SELECT
        *,
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
    SELECT *, count(if(begins, 1, NULL)) OVER (PARTITION BY tape, pid ORDER BY from_ts, until_ts) AS number
    FROM marked
)

SELECT *, (until_ts - from_ts) / 1e3 AS us FROM known
UNION ALL
SELECT tape, pid, 'any', min(from_ts), max(until_ts), class, (max(until_ts) - min(from_ts)) / 1e3
FROM numbered
GROUP BY tape, pid, class, number

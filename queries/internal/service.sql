-- Durations of runs of compaction and of wakeups: 64 quantiles of each kind.
--
-- Input of a replay with feedback (`replay --reclaim R1`), which draws from these quantiles.
-- The rows become the table `service`; 64 is SERVICE_ROWS of the engine.
--
-- Columns:
--   what    VARCHAR  compaction, direct_compaction or wake.
--   ns      UBIGINT  Duration, ns.
--   moved   UBIGINT  Pages migrated; 0 for wake.
--   failed  UBIGINT  Pages that failed to migrate.
WITH daemon AS (
    SELECT pid FROM compaction WHERE kind IN ('kcompactd_wake', 'kcompactd_sleep')
),

run AS (
    SELECT
        CASE WHEN w.pid IN (FROM daemon) THEN 'compaction' ELSE 'direct_compaction' END AS what,
        w.pid,
        w.from_ts,
        w.until_ts,
        coalesce(sum(m.nr_migrated), 0) AS moved,
        coalesce(sum(m.nr_failed), 0) AS failed
    FROM reclaim_window AS w
    LEFT JOIN compaction AS m
        ON m.kind = 'migratepages' AND m.pid = w.pid AND m.ts BETWEEN w.from_ts AND w.until_ts
    WHERE w.cause = 'compact' AND w.ended
    GROUP BY ALL
),

-- Several tasks may call kswapd before it runs: the wait begins with the first call.
call AS (
    SELECT node, ts, "at", kind
    FROM (
        SELECT *, lag(kind) OVER (PARTITION BY node ORDER BY ts, "at") AS before
        FROM reclaim
        WHERE kind IN ('wakeup_kswapd', 'kswapd_wake')
    )
    WHERE kind = 'kswapd_wake' OR before IS DISTINCT FROM kind
),

woken AS (
    SELECT kind, ts - lag(ts) OVER its AS ns, lag(kind) OVER its AS before
    FROM call
    WINDOW its AS (PARTITION BY node ORDER BY ts, "at")
),

served AS (
    SELECT what, until_ts - from_ts AS ns, moved, failed
    FROM run
    UNION ALL
    SELECT 'wake', ns, 0, 0
    FROM woken
    WHERE kind = 'kswapd_wake' AND before = 'wakeup_kswapd'
)

SELECT
    what,
    unnest(quantile_disc(ns, [(n + 0.5) / 64 FOR n IN range(64)]))::UBIGINT AS ns,
    unnest(quantile_disc(moved, [(n + 0.5) / 64 FOR n IN range(64)]))::UBIGINT AS moved,
    round(
        unnest(quantile_disc(moved, [(n + 0.5) / 64 FOR n IN range(64)]))
        * coalesce(sum(failed) / nullif(sum(moved), 0), 0)
    )::UBIGINT AS failed
FROM served
GROUP BY what
ORDER BY ALL

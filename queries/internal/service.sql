-- Durations of wakeups: 64 quantiles.
--
-- Input of a replay with feedback (`replay --reclaim R1`), which draws from these quantiles.
-- The rows become the table `service`; 64 is SERVICE_ROWS of the engine.
--
-- Columns:
--   what  VARCHAR  wake.
--   ns    UBIGINT  Duration, ns.
WITH call AS (
    -- Several tasks may call kswapd before it runs: the wait begins with the first call.
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
)

SELECT
    'wake' AS what,
    unnest(quantile_disc(ns, [(n + 0.5) / 64 FOR n IN range(64)]))::UBIGINT AS ns
FROM woken
WHERE kind = 'kswapd_wake' AND before = 'wakeup_kswapd'
ORDER BY ns

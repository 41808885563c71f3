-- Passes and sleeps of each kswapd, one row each, with the events before and after it.
--
-- A pass is a kswapd_wake, and may follow another one: a kswapd that cannot balance its node starts one after another.
--
-- Rows: few
--
-- Columns:
--   tape        VARCHAR   Name of the tape.
--   node        SMALLINT  NUMA node.
--   pid         INTEGER   Thread.
--   ts          UBIGINT   Trace clock, ns.
--   kind        VARCHAR   kswapd_wake or kswapd_sleep.
--   page_order  TINYINT   Order of the pass.
--   before      VARCHAR   Kind of the event before; null for the first.
--   next_ts     UBIGINT   Time of the next event; null after the last.
SELECT tape, node, pid, ts, kind, page_order, lag(kind) OVER its AS before, lead(ts) OVER its AS next_ts
FROM reclaim
WHERE kind IN ('kswapd_wake', 'kswapd_sleep')
WINDOW its AS (PARTITION BY tape, node ORDER BY ts, "at")

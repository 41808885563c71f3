-- Time for which the machine holds the zone lock per page, estimated from its events.
--
-- A refill of a per-CPU list is a run of alloc_zone_locked events of one CPU, a drain a
-- run of pcpu_drain events, each under one hold of the lock. The time between two of these
-- events is the work for one block plus the cost of tracing it. Two consecutive free_batched
-- events of one CPU have almost no work between them: the first decile of their distances,
-- `tracing_ns`, is the upper bound of the tracing cost. `net_ns` is the rest. The fixed cost of
-- a hold falls before its first event; the report assumes the cost of one block for it.
--
-- `pagetape replay --policy zone_lock:profile=tape` uses these numbers.
--
-- Events: whole
-- Needs: event.alloc_zone_locked
-- Tier: A
--
-- Columns:
--   what        VARCHAR  take: refills; give: drains.
--   runs        BIGINT   Runs of at least 8 events.
--   blocks      BIGINT   Events in these runs.
--   block_ns    DOUBLE   Median time per block over the runs, in ns, tracing included.
--   tracing_ns  DOUBLE   Upper bound of the tracing cost per block, in ns.
--   net_ns      DOUBLE   block_ns without tracing_ns, in ns; at least 1.
WITH run AS (
    SELECT what, blocks, (until_ts - from_ts) / (blocks - 1) AS block_ns
    FROM lock_run
    WHERE what IN ('take', 'give') AND blocks >= 8
),

tracing AS (
    SELECT quantile_cont((until_ts - from_ts)::DOUBLE, 0.1) AS ns FROM lock_run WHERE what = 'trace'
),

fitted AS (
    SELECT what, count(*) AS runs, sum(blocks)::BIGINT AS blocks, median(block_ns) AS block_ns
    FROM run
    GROUP BY what
)

SELECT
    * REPLACE (round(block_ns, 1) AS block_ns),
    round(t.ns, 1) AS tracing_ns,
    round(greatest(block_ns - coalesce(t.ns, 0), 1), 1) AS net_ns
FROM fitted
CROSS JOIN tracing AS t
ORDER BY what DESC

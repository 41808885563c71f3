-- Allocation, reclaim, compaction and THP per second, from the kernel's counters.
--
-- Source: the samples of /proc/vmstat in a recording. A row covers the time since the
-- previous sample, by the times at which that file was read. The counters also cover activity for which a cheap recording has no
-- tracepoints. Samples go on after the last event, while the recorder reads its rings. All rates are pages per second or events per second.
-- A counter that the kernel keeps by zone (those of kswapd and direct reclaim up to 4.7) is the sum of its zones.
--
-- Needs: sample.began
-- Tier: A
--
-- Columns:
--   at_s              DOUBLE  Time at which the file was read, seconds after the tape's first event.
--   over_s            DOUBLE  Time since the previous sample, which the row covers, in seconds.
--   allocated         DOUBLE  Pages allocated (pgalloc_*).
--   freed             DOUBLE  Pages freed (pgfree).
--   faults            DOUBLE  Page faults (pgfault).
--   scanned_kswapd    DOUBLE  Pages scanned by kswapd (pgscan_kswapd).
--   scanned_direct    DOUBLE  Pages scanned by direct reclaim (pgscan_direct).
--   reclaimed_kswapd  DOUBLE  Pages freed by kswapd (pgsteal_kswapd).
--   reclaimed_direct  DOUBLE  Pages freed by direct reclaim (pgsteal_direct).
--   stalls            DOUBLE  Allocations that had to reclaim (allocstall_*).
--   compact_stalls    DOUBLE  Allocations that had to compact (compact_stall).
--   compact_fails     DOUBLE  Compact stalls without success (compact_fail).
--   migrated          DOUBLE  Pages migrated (pgmigrate_success).
--   thp_allocs        DOUBLE  Faults that got a huge page (thp_fault_alloc).
--   thp_fallbacks     DOUBLE  Faults that got no huge page (thp_fault_fallback).
--   free              BIGINT  Free pages at that time (nr_free_pages), without the changes that CPUs have not folded in.
WITH point AS (
    SELECT ts, name, value FROM vmstat_reading
),

moment AS (
    SELECT ts, (ts - lag(ts) OVER (ORDER BY ts)) / 1e9 AS seconds
    FROM (SELECT DISTINCT ts FROM point)
),

-- A counter without a row has not changed.
change AS (
    SELECT
        ts,
        counter_of_zones(name) AS name,
        value,
        value - lag(value) OVER (PARTITION BY name ORDER BY ts) AS nr
    FROM point
),

rate AS (
    SELECT
        ts,
        coalesce(sum(nr) FILTER (name = 'pgalloc'), 0) AS allocated,
        coalesce(sum(nr) FILTER (name = 'pgfree'), 0) AS freed,
        coalesce(sum(nr) FILTER (name = 'pgfault'), 0) AS faults,
        coalesce(sum(nr) FILTER (name = 'pgscan_kswapd'), 0) AS scanned_kswapd,
        coalesce(sum(nr) FILTER (name = 'pgscan_direct'), 0) AS scanned_direct,
        coalesce(sum(nr) FILTER (name = 'pgsteal_kswapd'), 0) AS reclaimed_kswapd,
        coalesce(sum(nr) FILTER (name = 'pgsteal_direct'), 0) AS reclaimed_direct,
        coalesce(sum(nr) FILTER (name = 'allocstall'), 0) AS stalls,
        coalesce(sum(nr) FILTER (name = 'compact_stall'), 0) AS compact_stalls,
        coalesce(sum(nr) FILTER (name = 'compact_fail'), 0) AS compact_fails,
        coalesce(sum(nr) FILTER (name = 'pgmigrate_success'), 0) AS migrated,
        coalesce(sum(nr) FILTER (name = 'thp_fault_alloc'), 0) AS thp_allocs,
        coalesce(sum(nr) FILTER (name = 'thp_fault_fallback'), 0) AS thp_fallbacks,
        max(value) FILTER (name = 'nr_free_pages') AS free
    FROM change
    GROUP BY ts
)

SELECT
    round((ts::BIGINT - (SELECT start_ts FROM machine)::BIGINT) / 1e9, 3) AS at_s,
    round(seconds, 3) AS over_s,
    round(allocated / seconds, 1) AS allocated,
    round(freed / seconds, 1) AS freed,
    round(faults / seconds, 1) AS faults,
    round(scanned_kswapd / seconds, 1) AS scanned_kswapd,
    round(scanned_direct / seconds, 1) AS scanned_direct,
    round(reclaimed_kswapd / seconds, 1) AS reclaimed_kswapd,
    round(reclaimed_direct / seconds, 1) AS reclaimed_direct,
    round(stalls / seconds, 1) AS stalls,
    round(compact_stalls / seconds, 1) AS compact_stalls,
    round(compact_fails / seconds, 1) AS compact_fails,
    round(migrated / seconds, 1) AS migrated,
    round(thp_allocs / seconds, 1) AS thp_allocs,
    round(thp_fallbacks / seconds, 1) AS thp_fallbacks,
    last_value(free IGNORE NULLS) OVER (ORDER BY ts) AS free
FROM rate
JOIN moment USING (ts)
QUALIFY seconds IS NOT NULL
ORDER BY ts

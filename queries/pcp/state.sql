-- State of each per-CPU page list over time, as the kernel had it at refills and drains.
--
-- Source: stamps, which BPF programs read at the first event of each refill and drain. `count` is the number of pages on the
-- list before it. The kernel tunes `high` between `high_min` and `high_max`: a list of `high` pages drains. Flags and
-- watermarks are those of the list's zone. Intervals without a refill or drain have no row.
--
-- Tier: A
--
-- Parameters:
--   interval_ms  BIGINT 1..9000000000000 = 1000  Width of one row in milliseconds.
--
-- Columns:
--   at_s                    DOUBLE     Start of the interval, seconds after the tape's first event.
--   cpu                     USMALLINT  CPU of the list.
--   node                    USMALLINT  NUMA node.
--   zone                    VARCHAR    Zone.
--   refills                 BIGINT     Refills.
--   drains                  BIGINT     Drains by the list's own CPU; consecutive ones count as one.
--   least                   UINTEGER   Fewest pages on the list at a refill or drain.
--   most                    UINTEGER   Most pages on the list at a refill or drain.
--   high                    UINTEGER   Last limit at which a free drains the list, in pages.
--   high_min                UINTEGER   Its lower bound; null before 6.7.
--   high_max                UINTEGER   Its upper bound; null before 6.7.
--   batch                   UINTEGER   Last batch, in pages.
--   below_high_percent      DOUBLE     Share of refills and drains with ZONE_BELOW_HIGH set; null before 6.7.
--   reclaim_active_percent  DOUBLE     Share of refills and drains with ZONE_RECLAIM_ACTIVE set.
--   least_free              BIGINT     Fewest free pages of the zone, without what other CPUs have not folded in.
--   wmark_low               BIGINT     Last low watermark with its boost, in pages.
WITH stamped AS (
    SELECT (s.ts - m.start_ts)::BIGINT // (1000000 * greatest($interval_ms::BIGINT, 1)) AS slice, s.*
    FROM stamp AS s
    JOIN machine AS m USING (tape)
    WHERE s.count IS NOT NULL
)

SELECT
    (slice * greatest($interval_ms::BIGINT, 1) / 1000)::DOUBLE AS at_s,
    cpu,
    node,
    zone,
    count(*) FILTER (kind = 'refill') AS refills,
    count(*) FILTER (kind = 'drain') AS drains,
    min("count") AS least,
    max("count") AS most,
    arg_max(high, ts) AS high,
    arg_max(high_min, ts) AS high_min,
    arg_max(high_max, ts) AS high_max,
    arg_max(batch, ts) AS batch,
    round(100 * avg(below_high::DOUBLE), 1) AS below_high_percent,
    round(100 * avg(reclaim_active::DOUBLE), 1) AS reclaim_active_percent,
    min(free + vm_stat_diff)::BIGINT AS least_free,
    arg_max(wmark_low + boost, ts)::BIGINT AS wmark_low
FROM stamped
GROUP BY slice, cpu, node, zone
ORDER BY slice, cpu, node, zone

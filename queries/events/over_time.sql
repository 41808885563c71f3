-- Allocations, frees and zone-lock traffic over time.
--
-- Tier: A
--
-- Parameters:
--   interval_ms  BIGINT = 1000  Width of one row in milliseconds.
--
-- Columns:
--   at_s          DOUBLE  Start of the interval, seconds after the tape's first event.
--   allocs        BIGINT  Allocations.
--   alloc_pages   BIGINT  Pages allocated.
--   frees         BIGINT  Frees.
--   free_pages    BIGINT  Pages freed.
--   zone_locked   BIGINT  Pages taken from the buddy lists under the zone lock.
--   drained       BIGINT  Pages returned from the per-CPU lists under the zone lock.
SELECT
    (e.ts - m.start_ts) // (1000000 * greatest($interval_ms::BIGINT, 1))
        * greatest($interval_ms::BIGINT, 1) / 1000 AS at_s,
    count(*) FILTER (e.kind = 'alloc') AS allocs,
    coalesce(sum(1::BIGINT << e.page_order::INTEGER) FILTER (e.kind = 'alloc' AND e.pfn IS NOT NULL), 0)::BIGINT
        AS alloc_pages,
    count(*) FILTER (e.kind = 'free') AS frees,
    coalesce(sum(1::BIGINT << e.page_order::INTEGER) FILTER (e.kind = 'free'), 0)::BIGINT AS free_pages,
    coalesce(sum(1::BIGINT << e.page_order::INTEGER) FILTER (e.kind = 'alloc_zone_locked'), 0)::BIGINT
        AS zone_locked,
    coalesce(sum(1::BIGINT << e.page_order::INTEGER) FILTER (e.kind = 'pcpu_drain'), 0)::BIGINT AS drained
FROM event AS e
JOIN machine AS m USING (tape)
GROUP BY at_s
ORDER BY at_s

-- Allocations, frees and zone-lock traffic over time.
--
-- Tier: A
--
-- Parameters:
--   interval_ms  BIGINT 1..9000000000000 = 1000  Width of one row in milliseconds.
--
-- Columns:
--   at_s          DOUBLE  Start of the interval, seconds after the tape's first event.
--   allocs        BIGINT  Allocations.
--   alloc_pages   BIGINT  Pages allocated.
--   frees         BIGINT  Frees.
--   free_pages    BIGINT  Pages freed.
--   zone_locked   BIGINT  Pages taken from the buddy lists under the zone lock.
--   drained       BIGINT  Pages returned from the per-CPU lists under the zone lock.
WITH counted AS (
    SELECT
        (e.ts - m.start_ts)::BIGINT // (1000000 * greatest($interval_ms::BIGINT, 1)) AS at_interval,
        e.kind,
        e.page_order,
        count(*) AS nr,
        count(e.pfn) << coalesce(e.page_order, 0)::INTEGER AS pages
    FROM event AS e
    JOIN machine AS m USING (tape)
    GROUP BY at_interval, e.kind, e.page_order
)

SELECT
    at_interval * greatest($interval_ms::BIGINT, 1) / 1000 AS at_s,
    coalesce(sum(nr) FILTER (kind = 'alloc'), 0)::BIGINT AS allocs,
    coalesce(sum(pages) FILTER (kind = 'alloc'), 0)::BIGINT AS alloc_pages,
    coalesce(sum(nr) FILTER (kind = 'free'), 0)::BIGINT AS frees,
    coalesce(sum(pages) FILTER (kind = 'free'), 0)::BIGINT AS free_pages,
    coalesce(sum(pages) FILTER (kind = 'alloc_zone_locked'), 0)::BIGINT AS zone_locked,
    coalesce(sum(pages) FILTER (kind = 'pcpu_drain'), 0)::BIGINT AS drained
FROM counted
GROUP BY at_interval
ORDER BY at_interval

-- How well the per-CPU page lists shield the zone lock, CPU by CPU.
--
-- A page that was freed to a per-CPU list and allocated from it again costs no zone
-- lock: that is `recycled_percent`. Many pages both refilled and drained are churn:
-- the lists are too small for the load. An imbalance between CPUs shows pages
-- allocated here and freed there.
--
-- Tier: A
--
-- Columns:
--   cpu               USMALLINT  CPU.
--   allocs            BIGINT     Allocations.
--   refilled          BIGINT     Pages moved to the lists, as the kernel marks them (5.19 and later).
--   buddy             BIGINT     Pages taken under the zone lock for one allocation; all of them before 5.19.
--   drained           BIGINT     Pages moved back to the buddy lists.
--   recycled_percent  DOUBLE     Share of allocations for which no page left the buddy lists.
SELECT
    e.cpu,
    count(*) FILTER (e.kind = 'alloc') AS allocs,
    coalesce(sum(1::BIGINT << e.page_order::INTEGER)
        FILTER (e.kind = 'alloc_zone_locked' AND e.percpu_refill), 0)::BIGINT AS refilled,
    coalesce(sum(1::BIGINT << e.page_order::INTEGER)
        FILTER (e.kind = 'alloc_zone_locked' AND e.percpu_refill IS NOT TRUE), 0)::BIGINT AS buddy,
    coalesce(sum(1::BIGINT << e.page_order::INTEGER) FILTER (e.kind = 'pcpu_drain'), 0)::BIGINT AS drained,
    round(100 - 100 * count(*) FILTER (e.kind = 'alloc_zone_locked') / nullif(count(*) FILTER (e.kind = 'alloc'), 0), 2)
        AS recycled_percent
FROM event AS e
WHERE e.kind IN ('alloc', 'alloc_zone_locked', 'pcpu_drain')
GROUP BY e.cpu
ORDER BY e.cpu

-- How well the per-CPU page lists shield the zone lock, CPU by CPU.
--
-- A page that is freed to a per-CPU list and allocated from it again needs no zone
-- lock: `recycled_percent` is the share of such pages. Many pages both refilled and drained
-- mean that the lists are too small for the load. If CPUs differ, one CPU allocates pages
-- that another CPU frees.
--
-- Needs: event.alloc_zone_locked
-- Tier: A
--
-- Columns:
--   cpu               USMALLINT  CPU.
--   allocs            BIGINT     Allocations.
--   refilled          BIGINT     Pages moved to the lists, as the kernel marks them (since 5.19).
--   buddy             BIGINT     Pages taken under the zone lock for one allocation; all pages taken, before 5.19.
--   drained           BIGINT     Pages moved back to the buddy lists.
--   recycled_percent  DOUBLE     Share of allocations that took no page from the buddy lists; 0 if the lists took more blocks than were allocated.
WITH counted AS (
    SELECT
        cpu,
        kind,
        percpu_refill IS TRUE AS refill,
        sum(events)::BIGINT AS nr,
        nr << page_order::INTEGER AS pages
    FROM event_group
    WHERE kind IN ('alloc', 'alloc_zone_locked', 'pcpu_drain')
    GROUP BY cpu, kind, refill, page_order
)

SELECT
    cpu,
    coalesce(sum(nr) FILTER (kind = 'alloc'), 0)::BIGINT AS allocs,
    coalesce(sum(pages) FILTER (kind = 'alloc_zone_locked' AND refill), 0)::BIGINT AS refilled,
    coalesce(sum(pages) FILTER (kind = 'alloc_zone_locked' AND NOT refill), 0)::BIGINT AS buddy,
    coalesce(sum(pages) FILTER (kind = 'pcpu_drain'), 0)::BIGINT AS drained,
    100 - 100 * sum(nr) FILTER (kind = 'alloc_zone_locked') / sum(nr) FILTER (kind = 'alloc') AS percent,
    round(if(percent < 0, 0, percent), 2) AS recycled_percent
FROM counted
GROUP BY cpu
ORDER BY cpu

-- Traffic between the per-CPU lists and the buddy: pages that only go back and forth.
--
-- Pages that a CPU takes for its lists and also gives back went through the zone lock twice for
-- nothing: a longer list would hold them. Pages that one CPU takes and another gives back are
-- `crossed`: a longer list changes nothing about them. Only orders that the lists serve count.
--
-- Columns:
--   alloc_pages    BIGINT  Pages of allocations that the lists serve.
--   refilled       BIGINT  Pages that the lists took from the buddy.
--   drained        BIGINT  Pages that the lists gave back.
--   back           BIGINT  Pages that the same CPU took and gave back.
--   crossed        BIGINT  Pages that one CPU took and another gave back.
--   refill_blocks  BIGINT  Blocks taken, each of one order.
--   drain_blocks   BIGINT  Blocks given back.
WITH counted AS (
    SELECT
        e.tape,
        e.cpu,
        e.kind,
        e.page_order,
        coalesce(e.percpu_refill, e.page_order = 0) AS refill,
        sum(e.events - e.without_page)::BIGINT AS nr
    FROM event_group AS e
    JOIN machine AS m USING (tape)
    WHERE e.kind IN ('alloc', 'alloc_zone_locked', 'pcpu_drain')
      AND (e.page_order <= 3 OR e.page_order = m.pageblock_order)
    GROUP BY ALL
),

of_cpu AS (
    SELECT
        cpu,
        coalesce(sum(nr << page_order::INTEGER) FILTER (kind = 'alloc'), 0) AS alloc_pages,
        coalesce(sum(nr << page_order::INTEGER) FILTER (kind = 'alloc_zone_locked' AND refill), 0) AS refilled,
        coalesce(sum(nr << page_order::INTEGER) FILTER (kind = 'pcpu_drain'), 0) AS drained,
        coalesce(sum(nr) FILTER (kind = 'alloc_zone_locked' AND refill), 0) AS refill_blocks,
        coalesce(sum(nr) FILTER (kind = 'pcpu_drain'), 0) AS drain_blocks
    FROM counted
    GROUP BY cpu
)

SELECT
    coalesce(sum(alloc_pages), 0)::BIGINT AS alloc_pages,
    coalesce(sum(refilled), 0)::BIGINT AS refilled,
    coalesce(sum(drained), 0)::BIGINT AS drained,
    coalesce(sum(least(refilled, drained)), 0)::BIGINT AS back,
    coalesce(least(sum(refilled), sum(drained)) - sum(least(refilled, drained)), 0)::BIGINT AS crossed,
    coalesce(sum(refill_blocks), 0)::BIGINT AS refill_blocks,
    coalesce(sum(drain_blocks), 0)::BIGINT AS drain_blocks
FROM of_cpu

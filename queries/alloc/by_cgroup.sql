-- Allocations and fallbacks by control group, largest first.
--
-- The report counts all events of a thread in the thread's last known control group, including
-- events from before a move to that group. In interrupt context the thread is the interrupted
-- one: it did not request the page.
--
-- Needs: event.alloc or event.alloc_extfrag
-- Tier: A
--
-- Parameters:
--   top  BIGINT 0..1000000000 = 25  Maximum number of rows.
--
-- Columns:
--   cgroup           VARCHAR  Path of the control group; [unknown] if the tape does not record it.
--   threads          BIGINT   Threads with events in this group.
--   allocs           BIGINT   Allocations, failed ones included.
--   pages            BIGINT   Pages allocated.
--   high_order       BIGINT   Allocations of order 1 or more.
--   frees            BIGINT   Frees.
--   fallbacks        BIGINT   Allocations that took from another migratetype's free list.
--   below_pageblock  BIGINT   Fallbacks below pageblock order: they mix migratetypes.
WITH counted AS (
    SELECT
        e.tape,
        e.pid,
        count(*) FILTER (e.kind = 'alloc') AS allocs,
        sum(CASE WHEN e.kind = 'alloc' AND e.pfn IS NOT NULL THEN 1 << e.page_order::INTEGER END)
            AS pages,
        count(*) FILTER (e.kind = 'alloc' AND e.page_order > 0) AS high_order,
        count(*) FILTER (e.kind = 'free') AS frees,
        count(*) FILTER (e.kind = 'alloc_extfrag') AS fallbacks,
        count(*) FILTER (e.kind = 'alloc_extfrag' AND e.fallback_order < m.pageblock_order)
            AS below_pageblock
    FROM event AS e
    JOIN machine AS m USING (tape)
    WHERE e.kind IN ('alloc', 'free', 'alloc_extfrag')
    GROUP BY e.tape, e.pid
)

SELECT
    coalesce(t.cgroup, '[unknown]') AS cgroup,
    count(*) AS threads,
    sum(c.allocs)::BIGINT AS allocs,
    coalesce(sum(c.pages), 0)::BIGINT AS pages,
    sum(c.high_order)::BIGINT AS high_order,
    sum(c.frees)::BIGINT AS frees,
    sum(c.fallbacks)::BIGINT AS fallbacks,
    sum(c.below_pageblock)::BIGINT AS below_pageblock
FROM counted AS c
LEFT JOIN task AS t USING (tape, pid)
GROUP BY coalesce(t.cgroup, '[unknown]')
ORDER BY pages DESC, allocs DESC, cgroup
LIMIT $top::BIGINT

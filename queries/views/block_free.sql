-- Free pages of each pageblock that has any, at the snapshots that list free blocks.
--
-- Exact snapshots have all free pages, those on per-CPU lists included. Of other zones the free blocks
-- are from /proc/kpageflags, without the per-CPU lists. A block larger than a pageblock counts in each
-- pageblock that it covers. A pageblock that lies in two zones has a row for each.
--
-- Columns:
--   tape      VARCHAR    Name of the tape.
--   snapshot  USMALLINT  Number of the snapshot: 0 is the start, the largest is the end.
--   node      USMALLINT  NUMA node.
--   zone      VARCHAR    Zone.
--   number    BIGINT     Number of the pageblock: its first pfn >> pageblock order.
--   pages     BIGINT     Free pages.
--   exact     BOOLEAN    From an exact snapshot.
WITH listed AS (
    SELECT tape, snapshot, node, zone, pfn, page_order, true AS exact FROM free_block
    UNION ALL
    SELECT tape, snapshot, node, zone, pfn, page_order, true FROM pcp_page
    UNION ALL
    SELECT g.tape, g.snapshot, g.node, g.zone, g.pfn, g.page_order, false
    FROM block_guess AS g
    ANTI JOIN (SELECT DISTINCT tape, snapshot, node, zone FROM free_block) AS b USING (tape, snapshot, node, zone)
),

part AS (
    SELECT
        l.tape,
        l.snapshot,
        l.node,
        l.zone,
        unnest(range(
            (l.pfn >> m.pageblock_order)::BIGINT,
            ((l.pfn + (1 << l.page_order::INTEGER) - 1) >> m.pageblock_order)::BIGINT + 1
        )) AS number,
        1 << least(l.page_order::INTEGER, m.pageblock_order) AS pages,
        l.exact
    FROM listed AS l
    JOIN machine AS m USING (tape)
    WHERE l.page_order < 20  -- no kernel has larger blocks
)

SELECT tape, snapshot, node, zone, number, sum(pages)::BIGINT AS pages, bool_and(exact) AS exact
FROM part
GROUP BY tape, snapshot, node, zone, number

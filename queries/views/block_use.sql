-- Use of the pages of each pageblock, at the snapshots that record it.
--
-- Sources: exact snapshots that could also read /proc/kpageflags, and the model's end state.
-- A page of a recording is movable if it is on an LRU list, by the kernel's rule for
-- claiming a pageblock. The recorder reads the flags after the lists, page by page:
-- concurrent allocations and frees can make a block inexact. Pages on per-CPU lists are free.
--
-- `content` is `free` (no used page), `movable` (only movable used pages), `fixed`
-- (used pages, none movable) or `mixed`. Only the first two can become a huge page.
--
-- Columns:
--   tape           VARCHAR    Name of the tape.
--   snapshot       USMALLINT  Number of the snapshot: 0 is the start, the largest is the end.
--   node           USMALLINT  NUMA node.
--   zone           VARCHAR    Zone.
--   pfn            UBIGINT    First pfn of the pageblock.
--   migratetype    VARCHAR    Migratetype of the pageblock.
--   free_pages     BIGINT     Free pages.
--   movable_pages  BIGINT     Used pages that are movable.
--   fixed_pages    BIGINT     All other pages: kernel pages, holes, and pages of unknown type.
--   content        VARCHAR    free, movable, fixed or mixed.
WITH listed AS (
    SELECT tape, snapshot, node, zone, pfn, page_order FROM free_block
    UNION ALL
    SELECT tape, snapshot, node, zone, pfn, page_order FROM pcp_page
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
        1 << least(l.page_order::INTEGER, m.pageblock_order) AS pages
    FROM listed AS l
    JOIN machine AS m USING (tape)
    WHERE l.page_order < 20  -- no kernel has larger blocks
),

free AS (
    SELECT tape, snapshot, node, zone, number, sum(pages)::BIGINT AS pages
    FROM part
    GROUP BY ALL
),

used AS (
    SELECT
        b.tape,
        b.snapshot,
        b.node,
        b.zone,
        b.pfn,
        b.migratetype,
        coalesce(f.pages, 0) AS free_pages,
        least(b.nr_movable, (1 << m.pageblock_order) - free_pages)::BIGINT AS movable_pages,
        ((1 << m.pageblock_order) - free_pages - movable_pages)::BIGINT AS fixed_pages
    FROM pageblock AS b
    JOIN machine AS m USING (tape)
    LEFT JOIN free AS f
        ON f.tape = b.tape
        AND f.snapshot = b.snapshot
        AND f.node = b.node
        AND f.zone = b.zone
        AND f.number = (b.pfn >> m.pageblock_order)::BIGINT
    WHERE b.nr_movable IS NOT NULL
      AND (b.tape, b.snapshot, b.node, b.zone) IN (SELECT (tape, snapshot, node, zone) FROM free)
)

SELECT
    *,
    CASE
        WHEN movable_pages = 0 AND fixed_pages = 0 THEN 'free'
        WHEN fixed_pages = 0 THEN 'movable'
        WHEN movable_pages = 0 THEN 'fixed'
        ELSE 'mixed'
    END AS content
FROM used

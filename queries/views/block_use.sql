-- What the pages of each pageblock are used for, at the snapshots that tell.
--
-- Exact snapshots that could also read /proc/kpageflags, and the model's end state. A
-- movable page of a recording is one on an LRU list, as it is for the kernel when it
-- claims a pageblock; the flags are read after the lists, page by page, so a block may be
-- off by what went on meanwhile. Pages on per-CPU lists are free.
--
-- `content` is `free` (no page is used), `movable` (no page but movable ones), `fixed`
-- (no movable one) or `mixed`. Only the first two can become a huge page.
--
-- Columns:
--   tape           VARCHAR    Name of the tape.
--   snapshot       USMALLINT  0 at the start; the largest is the end.
--   node           USMALLINT  NUMA node.
--   zone           VARCHAR    Zone.
--   pfn            UBIGINT    First pfn of the pageblock.
--   migratetype    VARCHAR    Its migratetype.
--   free_pages     BIGINT     Free pages.
--   movable_pages  BIGINT     Used pages that are movable.
--   fixed_pages    BIGINT     All others: the kernel's, holes, and those of unknown kind.
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

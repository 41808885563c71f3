-- CMA pageblocks by what is in them: free, movable pages of which tasks, contiguous buffers.
--
-- Only movable requests and cma_alloc take pages from CMA pageblocks. A pageblock counts if the snapshot says
-- CMA, or isolated CMA. `holder` is the task that allocated the pages on the tape and did not free them, or
--
--   [free]              free pages, those on per-CPU lists included if the snapshot is exact
--   [cma_alloc]         contiguous pages given out on the tape and not released
--   [movable, unknown]  movable pages in use since before the tape, or moved here by compaction
--   [other, unknown]    the same for pages that are on no LRU list: kernel pages, or a buffer of cma_alloc
--   [unknown]           the same for pages of unknown kind
--
-- The kind of a page without an event is known only from an exact snapshot with /proc/kpageflags (view
-- block_use). Pages that compaction moves have no event at their new place.
--
-- Needs: pageblock
-- Tier: A
--
-- Columns:
--   snapshot  USMALLINT  Number of the snapshot: 0 is the start, the largest is the end.
--   node      USMALLINT  NUMA node.
--   zone      VARCHAR    Zone.
--   holder    VARCHAR    Task, or a class of pages in brackets.
--   pages     BIGINT     Pages.
--   mib       DOUBLE     The same in MiB.
--   percent   DOUBLE     Share of the zone's CMA pageblocks, in percent.
--   blocks    BIGINT     Pageblocks with such a page; of [unknown] classes, at most.
WITH block AS MATERIALIZED (
    SELECT
        b.tape,
        b.snapshot,
        b.node,
        b.zone,
        (b.pfn >> m.pageblock_order)::BIGINT AS number,
        1::BIGINT << m.pageblock_order AS pages,
        if(b.ts > 0, b.ts, if(b.snapshot = 0, m.start_ts, m.end_ts + 1)) AS ts
    FROM pageblock AS b
    JOIN machine AS m USING (tape)
    WHERE b.migratetype = 'CMA'
),

-- A buffer that went back in parts is given back whole.
buffer AS (
    SELECT f.tape, f.start_pfn AS pfn, f.nr_pages, f.ts, min(r.ts) AS released_ts
    FROM compaction AS f
    LEFT JOIN compaction AS r
        ON r.kind = 'cma_release'
        AND r.tape = f.tape
        AND r.start_pfn = f.start_pfn
        AND r.ts > f.ts
    WHERE f.kind = 'cma_alloc_finish' AND coalesce(f.allocated, f.errorno = 0) AND f.start_pfn IS NOT NULL AND f.nr_pages < 1 << 30
    GROUP BY ALL
),

covered AS (
    SELECT
        *,
        unnest(range(
            (pfn >> pageblock_order)::BIGINT, ((pfn + nr_pages - 1) >> pageblock_order)::BIGINT + 1
        )) AS number
    FROM (SELECT b.*, m.pageblock_order FROM buffer AS b JOIN machine AS m USING (tape))
),

held_by_cma AS (
    SELECT
        b.tape,
        b.snapshot,
        b.number,
        sum(
            least((b.number + 1) * b.pages, (c.pfn + c.nr_pages)::BIGINT) - greatest(b.number * b.pages, c.pfn::BIGINT)
        )::BIGINT AS pages
    FROM block AS b
    JOIN covered AS c ON c.tape = b.tape AND c.number = b.number
    WHERE c.ts < b.ts AND (c.released_ts IS NULL OR c.released_ts >= b.ts)
    GROUP BY b.tape, b.snapshot, b.number
),

last_event AS (
    SELECT
        b.tape,
        b.snapshot,
        b.number,
        arg_max(e.kind, e.ts) AS kind,
        arg_max(e.pid, e.ts) AS pid,
        1::BIGINT << least(arg_max(e.page_order, e.ts)::INTEGER, any_value(m.pageblock_order)) AS pages
    FROM event AS e
    JOIN machine AS m USING (tape)
    JOIN block AS b ON b.tape = e.tape AND b.number = (e.pfn >> m.pageblock_order)::BIGINT
    WHERE e.kind IN ('alloc', 'free') AND e.ts < b.ts
    GROUP BY b.tape, b.snapshot, b.number, e.pfn
),

held_by_task AS (
    SELECT l.tape, l.snapshot, l.number, coalesce(t.comm, l.pid::VARCHAR) AS comm, sum(l.pages)::BIGINT AS pages
    FROM last_event AS l
    LEFT JOIN task AS t USING (tape, pid)
    WHERE l.kind = 'alloc'
    GROUP BY ALL
),

known AS (
    SELECT tape, snapshot, number, '[free]' AS holder, sum(pages)::BIGINT AS pages
    FROM block_free
    GROUP BY tape, snapshot, number
    UNION ALL
    SELECT tape, snapshot, number, '[cma_alloc]', pages FROM held_by_cma
    UNION ALL
    SELECT tape, snapshot, number, comm, pages FROM held_by_task
),

-- What is left of each pageblock: at most its movable pages are movable.
rest AS (
    SELECT
        b.tape,
        b.snapshot,
        b.node,
        b.zone,
        b.number,
        greatest(b.pages - coalesce(sum(k.pages), 0), 0)::BIGINT AS pages,
        -- least() ignores null.
        if(any_value(u.movable_pages) IS NULL, NULL, greatest(
            least(
                any_value(u.movable_pages) - coalesce(sum(k.pages) FILTER (k.holder NOT LIKE '[%'), 0),
                b.pages - coalesce(sum(k.pages), 0)
            ),
            0
        ))::BIGINT AS movable
    FROM block AS b
    LEFT JOIN known AS k ON k.tape = b.tape AND k.snapshot = b.snapshot AND k.number = b.number
    LEFT JOIN (
        SELECT v.*, (v.pfn >> m.pageblock_order)::BIGINT AS number FROM block_use AS v JOIN machine AS m USING (tape)
    ) AS u
        ON u.tape = b.tape AND u.snapshot = b.snapshot AND u.node = b.node AND u.zone = b.zone AND u.number = b.number
    GROUP BY b.tape, b.snapshot, b.node, b.zone, b.number, b.pages
),

every AS (
    SELECT b.tape, b.snapshot, b.node, b.zone, b.number, k.holder, k.pages
    FROM block AS b
    JOIN known AS k ON k.tape = b.tape AND k.snapshot = b.snapshot AND k.number = b.number
    UNION ALL
    SELECT tape, snapshot, node, zone, number, '[unknown]', pages FROM rest WHERE movable IS NULL
    UNION ALL
    SELECT tape, snapshot, node, zone, number, '[movable, unknown]', movable FROM rest WHERE movable IS NOT NULL
    UNION ALL
    SELECT tape, snapshot, node, zone, number, '[other, unknown]', pages - movable FROM rest WHERE movable IS NOT NULL
)

SELECT
    e.snapshot,
    e.node,
    e.zone::VARCHAR AS zone,
    e.holder,
    sum(e.pages)::BIGINT AS pages,
    round(sum(e.pages) * coalesce(any_value(m.page_size), 4096) / 1048576, 1) AS mib,
    round(100 * sum(e.pages) / any_value(a.pages), 2) AS percent,
    count(*) AS blocks
FROM every AS e
JOIN machine AS m ON m.tape = e.tape
JOIN (
    SELECT tape, snapshot, node, zone, sum(pages) AS pages FROM block GROUP BY tape, snapshot, node, zone
) AS a ON a.tape = e.tape AND a.snapshot = e.snapshot AND a.node = e.node AND a.zone = e.zone
WHERE e.pages > 0
GROUP BY e.snapshot, e.node, e.zone, e.holder
ORDER BY e.snapshot, e.node, e.zone, sum(e.pages) DESC, e.holder

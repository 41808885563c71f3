-- Nearly empty pageblocks at the end of the tape, and the pages that hold them.
--
-- At least 7/8 of a nearly empty pageblock are free. It is pinned if the tape saw the allocation of
-- a page in it that is not MOVABLE, and no free of that page since: compaction cannot move such a page.
-- Pages in use since before the tape are of unknown type: a pageblock that holds only them is
-- `unclear`. Exact snapshots have all free pages, per-CPU lists included. Snapshots from
-- /proc are read while the machine runs, and lack the per-CPU lists.
--
-- Columns:
--   blocks         BIGINT   Pageblocks with any free page.
--   nearly_empty   BIGINT   Pageblocks with at least 7/8 free pages, and at least one used.
--   pinned         BIGINT   Of these, pageblocks with a page that cannot move.
--   pinned_free    BIGINT   Free pages in the pinned pageblocks.
--   pinning_pages  BIGINT   Pages that cannot move in them.
--   unclear        BIGINT   Nearly empty pageblocks with a page of unknown type, and none known to be fixed.
--   exact          BOOLEAN  All free pages are from an exact snapshot.
--   task           VARCHAR  Task that allocated most of the pinning pages.
--   task_pages     BIGINT   Pinning pages that it allocated.
--   task_high      BIGINT   Of these, pages of blocks above order 0.
WITH edge AS (
    SELECT tape, max(snapshot) AS last FROM zone GROUP BY tape
),

filled AS MATERIALIZED (
    SELECT
        f.number AS block,
        sum(f.pages)::BIGINT AS free,
        1 << any_value(m.pageblock_order) AS block_pages,
        bool_and(f.exact) AS exact
    FROM block_free AS f
    JOIN machine AS m USING (tape)
    JOIN edge AS e ON e.tape = f.tape AND e.last = f.snapshot
    GROUP BY f.number
),

sparse AS MATERIALIZED (
    SELECT block, free, block_pages - free AS used
    FROM filled
    WHERE free * 8 >= block_pages * 7 AND free < block_pages
),

held AS MATERIALIZED (
    SELECT
        (u.pfn >> m.pageblock_order)::BIGINT AS block,
        u.migratetype,
        u.page_order,
        1 << least(u.page_order::INTEGER, m.pageblock_order) AS pages,
        coalesce(t.comm, u.pid::VARCHAR) AS comm
    FROM page_in_use AS u
    JOIN machine AS m USING (tape)
    LEFT JOIN task AS t ON t.pid = u.pid
    WHERE u.page_order < 20
      AND (u.pfn >> m.pageblock_order)::BIGINT IN (SELECT block FROM sparse)
),

of_block AS (
    SELECT
        s.block,
        s.free,
        s.used,
        coalesce(sum(h.pages) FILTER (h.migratetype <> 'MOVABLE'), 0) AS pinning,
        coalesce(sum(h.pages), 0) AS known
    FROM sparse AS s
    LEFT JOIN held AS h USING (block)
    GROUP BY ALL
),

by_task AS (
    SELECT comm, sum(pages)::BIGINT AS pages, coalesce(sum(pages) FILTER (page_order > 0), 0)::BIGINT AS high
    FROM held
    WHERE migratetype <> 'MOVABLE'
    GROUP BY comm
    ORDER BY pages DESC, comm
    LIMIT 1
)

SELECT
    (SELECT count(*) FROM filled) AS blocks,
    count(*) AS nearly_empty,
    count(*) FILTER (b.pinning > 0) AS pinned,
    coalesce(sum(b.free) FILTER (b.pinning > 0), 0)::BIGINT AS pinned_free,
    coalesce(sum(b.pinning), 0)::BIGINT AS pinning_pages,
    count(*) FILTER (b.pinning = 0 AND b.known < b.used) AS unclear,
    (SELECT bool_and(exact) FROM filled) AS exact,
    (SELECT comm FROM by_task) AS task,
    (SELECT pages FROM by_task) AS task_pages,
    (SELECT high FROM by_task) AS task_high
FROM of_block AS b

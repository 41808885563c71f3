-- What the pageblocks of each migratetype hold, by snapshot.
--
-- A MOVABLE pageblock that holds anything fixed makes no huge page, however long
-- compaction works; `free` and `movable` ones do. Where a recording has an exact snapshot
-- this is seen, not modelled: see the view block_use for what it takes and how sure it is.
--
-- Tier: A
--
-- Columns:
--   snapshot     USMALLINT  0 at the start; the largest is the end.
--   node         USMALLINT  NUMA node.
--   zone         VARCHAR    Zone.
--   migratetype  VARCHAR    Migratetype of the pageblocks.
--   blocks       BIGINT     How many there are.
--   free         BIGINT     Without a used page.
--   movable      BIGINT     With movable pages only.
--   fixed        BIGINT     With used pages, none of them movable.
--   mixed        BIGINT     With both.
--   fixed_pages  BIGINT     Used pages in them that are not movable.
SELECT
    snapshot,
    node,
    zone::VARCHAR AS zone,
    migratetype::VARCHAR AS migratetype,
    count(*) AS blocks,
    count(*) FILTER (content = 'free') AS free,
    count(*) FILTER (content = 'movable') AS movable,
    count(*) FILTER (content = 'fixed') AS fixed,
    count(*) FILTER (content = 'mixed') AS mixed,
    sum(fixed_pages)::BIGINT AS fixed_pages
FROM block_use
GROUP BY snapshot, node, block_use.zone, block_use.migratetype
ORDER BY snapshot, node, block_use.zone, block_use.migratetype

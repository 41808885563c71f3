-- Contents of the pageblocks, by migratetype and snapshot.
--
-- Compaction cannot make a huge page from a MOVABLE pageblock that holds a fixed page;
-- it can from `free` and `movable` ones. For a recording, an exact snapshot measures the
-- contents, without a model. The flags of the pages are read before or after the instant of the
-- lists, by `flags_after_s`; a block whose free pages changed in between is `unknown`. The view
-- block_use describes the sources and their accuracy.
--
-- Tier: A
--
-- Columns:
--   snapshot     USMALLINT  Number of the snapshot: 0 is the start, the largest is the end.
--   node         USMALLINT  NUMA node.
--   zone         VARCHAR    Zone.
--   migratetype  VARCHAR    Migratetype of the pageblocks.
--   blocks       BIGINT     Number of pageblocks.
--   free         BIGINT     Pageblocks without a used page.
--   movable      BIGINT     Pageblocks with movable used pages only.
--   fixed        BIGINT     Pageblocks with used pages, none of them movable.
--   mixed        BIGINT     Pageblocks with movable and other used pages.
--   fixed_pages  BIGINT     Used pages that are not movable.
--   unknown      BIGINT     Pageblocks whose pages changed between the lists and the flags.
--   flags_after_s  DOUBLE   Seconds from the instant of the lists to the reading of the flags; null if not recorded.
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
    sum(fixed_pages)::BIGINT AS fixed_pages,
    count(*) FILTER (content = 'unknown') AS unknown,
    round((any_value(flags_ts)::BIGINT - any_value(ts)::BIGINT) / 1e9, 3) AS flags_after_s
FROM block_use
GROUP BY snapshot, node, block_use.zone, block_use.migratetype
ORDER BY snapshot, node, block_use.zone, block_use.migratetype

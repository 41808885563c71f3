-- The fragmentation indices over time, for one order.
--
-- A recording has one row per sample of /proc (`pagetape record --sample`), a replay one per
-- interval. The values of a row hold until the next row. Pages on per-CPU lists do not count
-- as free.
--
-- Needs: free_count.began
-- Tier: A
--
-- Parameters:
--   page_order  INTEGER 0..63  Order of the indices. Default: the pageblock order, or the largest one if that is unknown.
--
-- Columns:
--   at_s                 DOUBLE     Seconds after the tape's first event.
--   node                 USMALLINT  NUMA node.
--   zone                 VARCHAR    Zone.
--   free_pages           BIGINT     Free pages.
--   usable_pages         BIGINT     Free pages in blocks of at least that order.
--   unusable_free        BIGINT     Share of free pages in smaller blocks, 0 to 1000.
--   fragmentation_index  BIGINT     -1000, or 0 to 1000: see frag.indices.
--   extfrag_for_order    BIGINT     Share of free pages in smaller blocks, 0 to 100; for order 9 the zone's fragmentation score.
SELECT
    i.*,
    round((i.ts::BIGINT - m.start_ts::BIGINT) / 1e9, 3) AS at_s
FROM frag_index AS i
JOIN machine AS m USING (tape)
WHERE i.snapshot IS NULL
  AND i.page_order = coalesce($page_order, m.pageblock_order, m.nr_orders - 1)
ORDER BY i.ts, i.node, i.zone

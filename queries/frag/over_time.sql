-- The indices of fragmentation over time, for one order.
--
-- Of a recording at each sample of /proc (`pagetape record --sample`), of a replay after
-- each interval. A moment that is missing is as the one before it. Pages on per-CPU lists
-- are not free here.
--
-- Tier: A
--
-- Parameters:
--   page_order  INTEGER  The order asked about; by default that of a pageblock.
--
-- Columns:
--   at_s                 DOUBLE     Seconds after the tape's first event.
--   node                 USMALLINT  NUMA node.
--   zone                 VARCHAR    Zone.
--   free_pages           BIGINT     Free pages.
--   usable_pages         BIGINT     Of these, those in blocks of at least that order.
--   unusable_free        BIGINT     Share of those that are not, 0 to 1000.
--   fragmentation_index  BIGINT     -1000, or 0 to 1000: see frag.indices.
--   extfrag_for_order    BIGINT     0 to 100; of order 9 it is the zone's fragmentation score.
SELECT
    round((i.ts::BIGINT - m.start_ts::BIGINT) / 1e9, 3) AS at_s,
    i.node,
    i.zone,
    i.free_pages,
    i.usable_pages,
    i.unusable_free,
    i.fragmentation_index,
    i.extfrag_for_order
FROM frag_index AS i
JOIN machine AS m USING (tape)
WHERE i.snapshot IS NULL
  AND i.page_order = coalesce($page_order, m.pageblock_order)
ORDER BY i.ts, i.node, i.zone

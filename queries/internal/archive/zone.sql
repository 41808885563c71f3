-- Rows of fleet_zone for one tape.
--
-- Columns:
--   moment      VARCHAR  begin or end.
--   node        INTEGER  NUMA node.
--   zone        VARCHAR  Zone.
--   managed     BIGINT   Pages that the allocator manages.
--   free        BIGINT   Pages in the buddy lists.
--   wmark_min   BIGINT   Min watermark, in pages.
--   wmark_low   BIGINT   Low watermark, in pages.
--   wmark_high  BIGINT   High watermark, in pages.
SELECT
    if(snapshot = 0, 'begin', 'end') AS moment,
    node::INTEGER AS node,
    zone::VARCHAR AS zone,
    managed::BIGINT AS managed,
    free::BIGINT AS free,
    wmark_min::BIGINT AS wmark_min,
    wmark_low::BIGINT AS wmark_low,
    wmark_high::BIGINT AS wmark_high
FROM zone
WHERE managed > 0 AND snapshot IN (0, (SELECT max(snapshot) FROM zone))
ORDER BY ALL

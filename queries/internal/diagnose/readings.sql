-- Free pages of each zone beside its watermarks, at the moments of /proc over time.
--
-- Columns:
--   node       INTEGER  NUMA node.
--   zone       VARCHAR  Zone.
--   moments    BIGINT   Snapshots with the zone.
--   below_low  BIGINT   Of these, snapshots with fewer free pages than the low watermark and the boost.
--   below_min  BIGINT   Of these, snapshots with fewer free pages than the min watermark and the boost.
--   wmark_min  BIGINT   Largest min watermark, in pages.
--   least      BIGINT   Fewest free pages.
SELECT
    node::INTEGER AS node,
    zone::VARCHAR AS zone,
    count(*) AS moments,
    count(*) FILTER (free < wmark_low + coalesce(boost, 0)) AS below_low,
    count(*) FILTER (free < wmark_min + coalesce(boost, 0)) AS below_min,
    max(wmark_min)::BIGINT AS wmark_min,
    min(free)::BIGINT AS least
FROM zone
WHERE managed > 0
GROUP BY tape, node, zone
ORDER BY below_min DESC, below_low DESC, node, zone

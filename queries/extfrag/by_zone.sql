-- Fallbacks by NUMA node and zone.
--
-- The event contains neither node nor zone. The report derives both from the pfn and the zones of the first
-- snapshot. Without a snapshot both are unknown.
--
-- Tier: A
--
-- Columns:
--   node             USMALLINT  NUMA node.
--   zone             VARCHAR    Zone.
--   kind             VARCHAR    claim, steal or whole.
--   below_pageblock  BOOLEAN    The free page was smaller than a pageblock.
--   nr               BIGINT     Number of fallbacks.
SELECT
    z.node,
    z.zone,
    f.kind,
    f.below_pageblock,
    count(*) AS nr
FROM extfrag AS f
LEFT JOIN zone AS z
    ON z.tape = f.tape
    AND z.snapshot = 0
    AND f.pfn >= z.start_pfn
    AND f.pfn < z.start_pfn + z.spanned
GROUP BY ALL
ORDER BY node, zone, nr DESC, kind

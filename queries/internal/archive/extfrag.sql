-- Rows of fleet_extfrag for one tape.
--
-- The zone of a page is as in archive.event.
--
-- Columns:
--   alloc_migratetype     VARCHAR  Requested migratetype.
--   fallback_migratetype  VARCHAR  Migratetype of the free list that lost the page.
--   alloc_order           INTEGER  Requested order.
--   fallback_order        INTEGER  Order of the free page taken.
--   kind                  VARCHAR  whole, claim or steal; null if the tape lacks the pageblock order.
--   below_pageblock       BOOLEAN  The free page was smaller than a pageblock.
--   node                  INTEGER  NUMA node; null if no snapshot of the tape shows it.
--   zone                  VARCHAR  Zone; null if no snapshot of the tape shows it.
--   events                BIGINT   Number of fallbacks.
WITH place AS (
    SELECT list({first: start_pfn, past: start_pfn + spanned, node: node::INTEGER, zone: zone::VARCHAR} ORDER BY spanned, start_pfn) AS zones
    FROM zone
    WHERE snapshot = 0 AND spanned > 0
),

counted AS (
    SELECT
        f.alloc_migratetype,
        f.fallback_migratetype,
        f.alloc_order,
        f.fallback_order,
        f.kind,
        f.below_pageblock,
        list_filter(zones, lambda z: f.pfn >= z.first AND f.pfn < z.past)[1] AS at_zone,
        count(*) AS events
    FROM extfrag AS f, place
    GROUP BY ALL
)

SELECT
    alloc_migratetype::VARCHAR AS alloc_migratetype,
    fallback_migratetype::VARCHAR AS fallback_migratetype,
    alloc_order::INTEGER AS alloc_order,
    fallback_order::INTEGER AS fallback_order,
    kind,
    below_pageblock,
    at_zone.node AS node,
    at_zone.zone AS zone,
    events
FROM counted
ORDER BY ALL

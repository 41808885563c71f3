-- Rows of fleet_extfrag for one tape.
--
-- The zone of a page is as in archive.event.
--
-- Columns: of fleet_extfrag, without the tape
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

-- Rows of fleet_event for one tape.
--
-- Spans of zones may overlap: a page belongs to the zone with the shortest span around it.
--
-- Columns: of fleet_event, without the tape
WITH place AS (
    SELECT list({first: start_pfn, past: start_pfn + spanned, node: node::INTEGER, zone: zone::VARCHAR} ORDER BY spanned, start_pfn) AS zones
    FROM zone
    WHERE snapshot = 0 AND spanned > 0
),

counted AS (
    SELECT
        kind,
        page_order,
        migratetype,
        list_filter(zones, lambda z: e.pfn >= z.first AND e.pfn < z.past)[1] AS at_zone,
        count(*) AS events,
        count(*) - count(pfn) AS without_page
    FROM event AS e, place
    GROUP BY ALL
    UNION ALL
    SELECT kind, page_order, NULL, NULL, sum(events)::BIGINT, sum(without_page)::BIGINT
    FROM event_count
    GROUP BY kind, page_order
)

SELECT
    *,
    at_zone.node AS node,
    at_zone.zone AS zone
FROM counted
ORDER BY kind, page_order, migratetype, node, zone

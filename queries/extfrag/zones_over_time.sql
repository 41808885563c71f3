-- Free memory and fallbacks over time, by zone and migratetype.
--
-- The report shows which migratetype fragments which zone, and whether memory was short then. `to_*` are fallbacks
-- below pageblock order by the requested migratetype: they mix pageblocks. Each zone that the report has anywhere has a row in
-- each interval from the first event to the last, also one without a fallback. Kernels up to 6.9 emit one event for each
-- free block taken, later ones one for each page. Where fallbacks were not recorded, `to_*` and `whole` are empty.
--
-- Free memory is the lowest of the interval, counted from page events between readings of /proc (view zone_free); without page
-- events only readings count, and an interval without one has none. The kernel counts free pages by migratetype only in snapshots:
-- `free_*` by migratetype is empty in other intervals. Null nodes are pages outside the zones of the first snapshot.
--
-- Needs: event.alloc_extfrag or zone
-- Tier: A
--
-- Parameters:
--   interval_ms  BIGINT 1..9000000000000 = 1000  Width of one row in milliseconds.
--
-- Columns:
--   at_s              DOUBLE     Start of the interval, seconds after the tape's first event.
--   node              USMALLINT  NUMA node.
--   zone              VARCHAR    Zone.
--   free_pages        BIGINT     Fewest free pages in the interval.
--   free_percent      DOUBLE     free_pages of the zone's managed pages, in percent.
--   free_unmovable    BIGINT     Free UNMOVABLE pages at a snapshot in the interval.
--   free_movable      BIGINT     Free MOVABLE pages.
--   free_reclaimable  BIGINT     Free RECLAIMABLE pages.
--   to_unmovable      BIGINT     Fallbacks below pageblock order of UNMOVABLE requests.
--   to_movable        BIGINT     The same, of MOVABLE requests.
--   to_reclaimable    BIGINT     The same, of RECLAIMABLE requests.
--   whole             BIGINT     Fallbacks of whole pageblocks, which mix nothing.
WITH place AS (
    SELECT tape, node, zone::VARCHAR AS zone, start_pfn, spanned, managed FROM zone WHERE snapshot = 0
),

clock AS (
    SELECT tape, start_ts, end_ts, 1000000 * greatest($interval_ms::BIGINT, 1) AS width FROM machine WHERE start_ts IS NOT NULL
),

free AS (
    SELECT
        f.node,
        f.zone,
        (least(greatest(f.ts, c.start_ts), c.end_ts) - c.start_ts)::BIGINT // c.width AS slice,
        min(f.free_pages) AS pages
    FROM zone_free AS f
    JOIN clock AS c USING (tape)
    GROUP BY ALL
),

area AS (
    SELECT
        a.node,
        a.zone::VARCHAR AS zone,
        (least(greatest(a.ts, c.start_ts), c.end_ts) - c.start_ts)::BIGINT // c.width AS slice,
        arg_max(a.unmovable, a.snapshot) AS unmovable,
        arg_max(a.movable, a.snapshot) AS movable,
        arg_max(a.reclaimable, a.snapshot) AS reclaimable
    FROM (
        SELECT
            tape,
            snapshot,
            ts,
            node,
            zone,
            sum(nr_free << least(page_order::INTEGER, 20)) FILTER (migratetype = 'UNMOVABLE') AS unmovable,
            sum(nr_free << least(page_order::INTEGER, 20)) FILTER (migratetype = 'MOVABLE') AS movable,
            sum(nr_free << least(page_order::INTEGER, 20)) FILTER (migratetype = 'RECLAIMABLE') AS reclaimable
        FROM free_area
        WHERE ts > 0 AND migratetype IS NOT NULL
        GROUP BY ALL
    ) AS a
    JOIN clock AS c USING (tape)
    GROUP BY ALL
),

mixed AS (
    SELECT
        p.node,
        p.zone,
        (f.ts - c.start_ts)::BIGINT // c.width AS slice,
        count(*) FILTER (f.below_pageblock AND f.alloc_migratetype = 'UNMOVABLE') AS unmovable,
        count(*) FILTER (f.below_pageblock AND f.alloc_migratetype = 'MOVABLE') AS movable,
        count(*) FILTER (f.below_pageblock AND f.alloc_migratetype = 'RECLAIMABLE') AS reclaimable,
        count(*) FILTER (NOT f.below_pageblock) AS whole
    FROM extfrag AS f
    JOIN clock AS c USING (tape)
    LEFT JOIN place AS p ON p.tape = f.tape AND f.pfn >= p.start_pfn AND f.pfn < p.start_pfn + p.spanned
    GROUP BY ALL
),

-- The count of an interval without a fallback: null if none was recorded.
known AS (
    SELECT
        CASE
            WHEN m.replayed
            OR coalesce(
                list_contains(m.recorded, 'kmem:mm_page_alloc_extfrag'),
                EXISTS (SELECT 1 FROM event WHERE kind = 'alloc_extfrag')
            ) THEN 0::BIGINT
        END AS none
    FROM machine AS m
),

-- Every interval of each zone; values only after the last event are in the last one.
slice AS (
    SELECT z.node, z.zone, i.slice
    FROM (
        SELECT node, zone FROM free
        UNION
        SELECT node, zone FROM area
        UNION
        SELECT node, zone FROM mixed
    ) AS z
    CROSS JOIN (SELECT unnest(interval_numbers(start_ts, end_ts, $interval_ms)) AS slice FROM machine) AS i
)

SELECT
    (s.slice * greatest($interval_ms::BIGINT, 1) / 1000)::DOUBLE AS at_s,
    s.node,
    s.zone,
    f.pages AS free_pages,
    round(100 * f.pages / nullif(p.managed, 0), 2) AS free_percent,
    a.unmovable::BIGINT AS free_unmovable,
    a.movable::BIGINT AS free_movable,
    a.reclaimable::BIGINT AS free_reclaimable,
    coalesce(x.unmovable, k.none) AS to_unmovable,
    coalesce(x.movable, k.none) AS to_movable,
    coalesce(x.reclaimable, k.none) AS to_reclaimable,
    coalesce(x.whole, k.none) AS whole
FROM slice AS s
CROSS JOIN known AS k
LEFT JOIN place AS p USING (node, zone)
LEFT JOIN free AS f USING (node, zone, slice)
LEFT JOIN area AS a USING (node, zone, slice)
LEFT JOIN mixed AS x
    ON x.slice = s.slice AND x.node IS NOT DISTINCT FROM s.node AND x.zone IS NOT DISTINCT FROM s.zone
ORDER BY s.slice, s.node, s.zone

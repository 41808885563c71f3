-- Free memory beside the watermarks of each zone, and advice on vm.min_free_kbytes.
--
-- Below `low` an allocation wakes kswapd; below `min` it must reclaim itself. A near miss is a fall below `min`
-- plus `--near-percent` of the distance from min to low. Read `advice` first.
--
-- The room of kswapd is the distance from min to low. It must hold what the load allocates
-- until kswapd has freed memory: the report takes the deepest fall below low, and a quarter more. If requests reclaimed for
-- themselves and no fall is known, it takes twice the room that kswapd has in the largest zone. `diagnose` gives the same advice.
-- Either setting makes that room in this zone: vm.min_free_kbytes (a quarter of min) or
-- vm.watermark_scale_factor (a share of the zone), which does not raise min. Try a value before you
-- use it: `pagetape replay T.tape --policy watermarks:min_free_kbytes=N`.
--
-- Free memory is counted from page events between readings of /proc (view zone_free); `error_pages` is how far the
-- count was off at a reading. Without page events only the readings are `points`, and shorter falls
-- are missed. A fall that an error of its count would explain is not counted: the tape does not show it. Watermarks are those of the first snapshot, without boosts. A replay
-- under other watermarks still shows those of its recording.
--
-- The kernel's test leaves out CMA and HIGHATOMIC pages, which kernel requests may not use (see alloc.usable). Only snapshots
-- have their number: `unusable_pages` is the largest. A zone whose free pages are enough with them and may not be
-- without is `unclear`. lowmem_reserve is not counted: it does not bind requests for the zone itself.
--
-- Needs: zone
-- Events: whole
-- Tier: B
--
-- Parameters:
--   near_percent  BIGINT 0..100 = 25  Share of the distance from min to low that is a near miss, in percent.
--
-- Columns:
--   node                       USMALLINT  NUMA node.
--   zone                       VARCHAR    Zone.
--   points                     BIGINT     Points with known free memory: readings and page events.
--   error_pages                BIGINT     Largest error of the count at a reading, in pages; null without page events.
--   wmark_min                  BIGINT     Min watermark, in pages.
--   wmark_low                  BIGINT     Low watermark, in pages.
--   wmark_high                 BIGINT     High watermark, in pages.
--   lowest_free                BIGINT     Fewest free pages, by the count.
--   unusable_pages                 BIGINT     Most CMA and HIGHATOMIC pages of a snapshot that kernel requests may not use; null if unknown.
--   lowest_at_s                DOUBLE     Its first time, seconds after the tape's first event.
--   falls                      BIGINT     Falls below low.
--   below_low_s                DOUBLE     Time below low, in seconds.
--   near_misses                BIGINT     Near misses, and falls below min.
--   below_min                  BIGINT     Falls below min.
--   calls                      BIGINT     Calls of kswapd for a shortage, on the whole node; null if not recorded.
--   stalls                     BIGINT     Direct reclaims, on the whole machine; null if not recorded.
--   min_free_kbytes            BIGINT     Value now, in KiB; from the watermarks if the tape lacks it.
--   room                       BIGINT     Distance from min to low that kswapd needs, in pages; null: no reason to change.
--   suggested_kbytes           BIGINT     Value that gives kswapd the room in this zone, in KiB; null: no reason to change.
--   suggested_scale            BIGINT     vm.watermark_scale_factor that gives the same room instead, in 1/10000 of the zone, at most 3000.
--   advice                     VARCHAR    The conclusion, in words.
--   lowest_error               BIGINT     Error of the count between the readings around the lowest; the largest if there is none after it.
WITH mark AS (
    SELECT
        z.tape,
        z.node,
        z.zone::VARCHAR AS zone,
        z.managed::BIGINT AS managed,
        z.wmark_min::BIGINT AS wmark_min,
        z.wmark_low::BIGINT AS wmark_low,
        z.wmark_high::BIGINT AS wmark_high,
        z.wmark_min + (z.wmark_low - z.wmark_min) * $near_percent::BIGINT / 100 AS near,
        sum(z.wmark_min) OVER (PARTITION BY z.tape)::BIGINT AS every_min
    FROM zone AS z
    WHERE z.snapshot = 0 AND z.managed > 0
),

-- Each count with its own error: so many pages are free at most, and at least. A reading has none.
bounded AS (
    SELECT
        tape,
        node,
        zone::VARCHAR AS zone,
        ts,
        free_pages,
        changes,
        error_pages,
        coalesce(widest_pages, 0) AS widest,
        if(reading, 0, coalesce(error_pages, -widest)) AS error_here,
        free_pages - least(error_here, 0) AS at_most,
        free_pages - if(reading, 0, greatest(coalesce(error_pages, widest), 0)) AS at_least,
        before_pages - if(before_reading, 0, least(coalesce(before_error_pages, -widest), 0)) AS before,
        ts - before_ts AS ns
    FROM sequence_low_free
),

point AS (
    SELECT f.*, k.* EXCLUDE (tape, node, zone)
    FROM bounded AS f
    JOIN mark AS k USING (tape, node, zone)
),

counted AS (
    SELECT
        tape,
        node,
        zone,
        any_value(managed) AS managed,
        any_value(wmark_min) AS wmark_min,
        any_value(wmark_low) AS wmark_low,
        any_value(wmark_high) AS wmark_high,
        any_value(every_min) AS every_min,
        any_value(near) AS near,
        sum(changes)::BIGINT AS points,
        max(abs(error_pages)) AS error_pages,
        min(free_pages) AS lowest_free,
        min(at_most) AS lowest_sure,
        min(at_least) AS lowest_maybe,
        arg_min(error_here, (free_pages, ts)) AS lowest_error,
        arg_min(ts, (free_pages, ts)) AS lowest_ts,
        count(*) FILTER (at_most < wmark_low AND coalesce(before >= wmark_low, true)) AS falls,
        coalesce(sum(ns) FILTER (before < wmark_low), 0) / 1e9 AS below_low_s,
        count(*) FILTER (at_most < near AND coalesce(before >= near, true)) AS near_misses,
        count(*) FILTER (at_most < wmark_min AND coalesce(before >= wmark_min, true)) AS below_min
    FROM point
    GROUP BY tape, node, zone
),

call AS (
    SELECT tape, node, count(*) AS calls
    FROM reclaim
    WHERE kind = 'wakeup_kswapd' AND page_order = 0 AND gfp_flags <> 0
    GROUP BY tape, node
),

-- Of a tape without such events, but with others of the table, all counts are 0.
seen AS (
    SELECT
        m.tape,
        bool_or(r.kind IN ('kswapd_wake', 'kswapd_sleep', 'wakeup_kswapd')) AS kswapd,
        count(*) FILTER (r.kind = 'direct_reclaim_begin') AS stalls,
        count(*) FILTER (r.kind = 'direct_reclaim_begin' AND r.page_order = 0) AS for_order_0
    FROM machine AS m
    LEFT JOIN (
        SELECT tape, kind, page_order
        FROM reclaim
        WHERE kind IN ('kswapd_wake', 'kswapd_sleep', 'wakeup_kswapd', 'direct_reclaim_begin')
    ) AS r USING (tape)
    WHERE EXISTS (SELECT 1 FROM reclaim)
    GROUP BY m.tape
),

judged AS (
    SELECT
        c.*,
        coalesce(m.min_free_kbytes, c.every_min * m.page_size // 1024)::BIGINT AS min_free_kbytes,
        CASE WHEN s.kswapd THEN coalesce(l.calls, 0) END AS calls,
        s.stalls,
        s.for_order_0,
        p.pages AS unusable,
        CASE
            WHEN c.near_misses > 0 OR c.below_min > 0
                THEN ceil(greatest(c.wmark_low - c.lowest_sure, 1) * 1.25)::BIGINT
            WHEN c.lowest_free < c.near THEN NULL
            WHEN s.for_order_0 > 0
                AND sum(c.near_misses + c.below_min) OVER (PARTITION BY c.tape) = 0
                AND c.managed = max(c.managed) OVER (PARTITION BY c.tape, c.node)
                THEN 2 * (c.wmark_low - c.wmark_min)
        END AS room,
        m.start_ts
    FROM counted AS c
    JOIN machine AS m USING (tape)
    LEFT JOIN seen AS s USING (tape)
    LEFT JOIN call AS l ON l.tape = c.tape AND l.node = c.node
    LEFT JOIN zone_unusable AS p ON p.tape = c.tape AND p.node = c.node AND p.zone = c.zone
)

SELECT
    * REPLACE (
        round(below_low_s, 3) AS below_low_s,
        if(room > wmark_low - wmark_min, room, NULL) AS room
    ),
    unusable AS unusable_pages,
    round((lowest_ts::BIGINT - start_ts::BIGINT) / 1e9, 3) AS lowest_at_s,
    CASE
        WHEN room > wmark_low - wmark_min
            THEN ceil(min_free_kbytes::DOUBLE * 4 * room / greatest(wmark_min, 1))::BIGINT
    END AS suggested_kbytes,
    CASE WHEN room > wmark_low - wmark_min THEN least(ceil(room * 10000.0 / managed), 3000)::BIGINT END
        AS suggested_scale,
    CASE
        WHEN below_min > 0 THEN printf('too low: up to %d pages below min', wmark_min - lowest_sure)
        WHEN near_misses > 0 THEN printf('near miss: %d pages above min', lowest_sure - wmark_min)
        WHEN lowest_free < near
            THEN printf('not shown: lowest at %d pages, but the count may be %d too low there', lowest_free, -lowest_error)
        WHEN unusable IS NULL
            THEN printf('unclear: lowest at %d pages, and an unknown number of them may be CMA or HIGHATOMIC', lowest_free)
        WHEN lowest_free - unusable < if(falls > 0, wmark_min, wmark_low)
            THEN printf('unclear: lowest at %d pages, and up to %d of them may be CMA or HIGHATOMIC', lowest_free, unusable)
        WHEN lowest_maybe - unusable < if(falls > 0, wmark_min, wmark_low)
            THEN printf('not shown: lowest at %d pages, but the count may be up to %d too high', lowest_free, error_pages)
        WHEN falls > 0 THEN printf('enough: kswapd had %d pages left above min', lowest_free - unusable - wmark_min)
        WHEN for_order_0 > 0
            AND sum(near_misses + below_min) OVER () = 0
            THEN printf('unclear: never below low at %d points, but %d direct reclaims for order 0', points, for_order_0)
        ELSE printf('enough: never below low at %d points', points)
    END AS advice
FROM judged
ORDER BY node, zone

-- Fallbacks over time, by requested and source migratetype.
--
-- The report shows when which requests took whose pages. Each pair of migratetypes that the tape has anywhere has
-- a row in each interval from the first event to the last: an interval without such a fallback has 0. A tape that records
-- fallbacks and has none has one row for each interval, without migratetypes. Fallbacks below pageblock order mix
-- pageblocks. Kernels up to 6.8 emit one event for each free block taken, later ones one for each page.
--
-- Needs: event.alloc_extfrag
-- Tier: A
--
-- Parameters:
--   interval_ms  BIGINT 1..9000000000000 = 1000  Width of one row in milliseconds.
--
-- Columns:
--   at_s                  DOUBLE   Start of the interval, seconds after the tape's first event.
--   alloc_migratetype     VARCHAR  Requested migratetype.
--   fallback_migratetype  VARCHAR  Migratetype of the free list that lost the page.
--   nr                    BIGINT   Fallbacks.
--   below_pageblock       BIGINT   Of these, fallbacks of free pages smaller than a pageblock.
--   claim                 BIGINT   Of these, fallbacks that changed the block's migratetype.
--   per_s                 DOUBLE   nr per second of the interval; the last interval counts up to the last event.
WITH
-- Every interval, if the tape records fallbacks: none in an interval is a 0.
slice AS (
    SELECT tape, start_ts, end_ts, unnest(interval_numbers(start_ts, end_ts, $interval_ms)) AS slice
    FROM machine
    WHERE coalesce(list_contains(recorded, 'kmem:mm_page_alloc_extfrag'), replayed)
        OR tape IN (SELECT tape FROM tracepoint WHERE name = 'mm_page_alloc_extfrag' UNION SELECT tape FROM extfrag)
),

pair AS (
    SELECT DISTINCT tape, alloc_migratetype, fallback_migratetype FROM extfrag
)

SELECT
    s.slice * greatest($interval_ms::BIGINT, 1) / 1000 AS at_s,
    p.alloc_migratetype,
    p.fallback_migratetype,
    count(f.ts) AS nr,
    count(*) FILTER (f.below_pageblock) AS below_pageblock,
    count(*) FILTER (f.kind = 'claim') AS claim,
    round(nr * 1e9 / nullif(least(
        1000000 * greatest($interval_ms::BIGINT, 1),
        (any_value(s.end_ts) - any_value(s.start_ts))::BIGINT
            - s.slice * 1000000 * greatest($interval_ms::BIGINT, 1) + 1
    ), 0), 2) AS per_s
FROM slice AS s
LEFT JOIN pair AS p ON p.tape = s.tape
LEFT JOIN extfrag AS f
    ON f.tape = s.tape
    AND f.alloc_migratetype = p.alloc_migratetype
    AND f.fallback_migratetype = p.fallback_migratetype
    AND (f.ts - s.start_ts)::BIGINT // (1000000 * greatest($interval_ms::BIGINT, 1)) = s.slice
GROUP BY s.slice, p.alloc_migratetype, p.fallback_migratetype
ORDER BY s.slice, p.alloc_migratetype, p.fallback_migratetype

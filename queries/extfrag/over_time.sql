-- Fallbacks over time, by kind.
--
-- The report shows bursts and steady rates of fallbacks. Each interval from the first event to the last has a row,
-- also one without a fallback. extfrag.types_over_time has them by migratetype.
--
-- Needs: event.alloc_extfrag
-- Tier: A
--
-- Parameters:
--   interval_ms  BIGINT 1..9000000000000 = 1000  Width of one row in milliseconds.
--
-- Columns:
--   at_s             DOUBLE  Start of the interval, seconds after the tape's first event.
--   claim            BIGINT  Fallbacks that changed the block's migratetype.
--   steal            BIGINT  Fallbacks that left a block mixed.
--   whole            BIGINT  Fallbacks of whole pageblocks.
--   below_pageblock  BIGINT  claim + steal.
WITH
-- Every interval, if the tape records fallbacks: none in an interval is a 0.
slice AS (
    SELECT tape, start_ts, unnest(interval_numbers(start_ts, end_ts, $interval_ms)) AS slice
    FROM machine
    WHERE coalesce(list_contains(recorded, 'kmem:mm_page_alloc_extfrag'), replayed)
        OR tape IN (SELECT tape FROM tracepoint WHERE name = 'mm_page_alloc_extfrag' UNION SELECT tape FROM extfrag)
)

SELECT
    s.slice * greatest($interval_ms::BIGINT, 1) / 1000 AS at_s,
    count(*) FILTER (f.kind = 'claim') AS claim,
    count(*) FILTER (f.kind = 'steal') AS steal,
    count(*) FILTER (f.kind = 'whole') AS whole,
    count(*) FILTER (f.below_pageblock) AS below_pageblock
FROM slice AS s
LEFT JOIN extfrag AS f
    ON f.tape = s.tape
    AND (f.ts - s.start_ts)::BIGINT // (1000000 * greatest($interval_ms::BIGINT, 1)) = s.slice
GROUP BY s.slice
ORDER BY s.slice

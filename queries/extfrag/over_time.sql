-- Fallbacks over time, by kind.
--
-- The report shows bursts and steady rates of fallbacks. Intervals without a fallback have no row.
--
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
SELECT
    (f.ts - m.start_ts)::BIGINT // (1000000 * greatest($interval_ms::BIGINT, 1))
        * greatest($interval_ms::BIGINT, 1) / 1000 AS at_s,
    count(*) FILTER (kind = 'claim') AS claim,
    count(*) FILTER (kind = 'steal') AS steal,
    count(*) FILTER (kind = 'whole') AS whole,
    count(*) FILTER (below_pageblock) AS below_pageblock
FROM extfrag AS f
JOIN machine AS m USING (tape)
GROUP BY at_s
ORDER BY at_s

-- Fallbacks by address and time: the cells of a picture that have any.
--
-- A line covers an equal part of the machine's addresses, from its first to its last zone.
--
-- Tier: A
--
-- Parameters:
--   interval_ms  BIGINT 1..9000000000000 = 1000  Width of a cell in milliseconds.
--   lines        BIGINT 1..4096 = 64             Cells above each other.
--
-- Columns:
--   at_s       DOUBLE  Start of the interval, seconds after the tape's first event.
--   line       BIGINT  Number of the line; 0 has the lowest addresses.
--   first_pfn  BIGINT  First pfn of the line.
--   past_pfn   BIGINT  First pfn after the line.
--   mixing     BIGINT  Fallbacks below pageblock order: two migratetypes share a pageblock.
--   nr         BIGINT  All fallbacks.
WITH memory AS (
    SELECT tape, min(start_pfn)::BIGINT AS low, max(start_pfn + spanned)::BIGINT AS high
    FROM zone
    WHERE snapshot = 0 AND spanned > 0 AND start_pfn < 1::UBIGINT << 52 AND spanned < 1::UBIGINT << 52
    GROUP BY tape
),

placed AS (
    SELECT
        (f.ts - m.start_ts)::BIGINT // (1000000 * $interval_ms::BIGINT) AS place,
        ((f.pfn::BIGINT - r.low) * $lines::BIGINT // (r.high - r.low))::BIGINT AS line,
        r.low,
        r.high,
        f.below_pageblock
    FROM extfrag AS f
    JOIN machine AS m USING (tape)
    JOIN memory AS r USING (tape)
    WHERE f.pfn >= r.low AND f.pfn < r.high
)

SELECT
    place * $interval_ms::BIGINT / 1000 AS at_s,
    line,
    low + (line * (high - low) + $lines::BIGINT - 1) // $lines::BIGINT AS first_pfn,
    low + ((line + 1) * (high - low) + $lines::BIGINT - 1) // $lines::BIGINT AS past_pfn,
    count(*) FILTER (below_pageblock) AS mixing,
    count(*) AS nr
FROM placed
GROUP BY place, line, low, high
ORDER BY place, line

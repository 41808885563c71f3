-- Lengths of the per-CPU page lists over time. Only for replayed tapes.
--
-- Tier: A
--
-- Parameters:
--   interval_ms  BIGINT 1..9000000000000 = 1000  Least width of one row; a row has whole samples.
--
-- Columns:
--   at_s         DOUBLE  Start of the interval, seconds after the tape's first event.
--   until_s      DOUBLE  Its end.
--   all_pages    DOUBLE  Mean number of pages on all lists.
--   fullest      DOUBLE  Of these, pages of the CPU that has most.
--   limit_pages  DOUBLE  Sum of the lists' high, in pages.
WITH width AS (
    SELECT greatest($interval_ms::BIGINT * 1000000, max(duration_ns)::BIGINT) AS ns
    FROM pcp_occupancy
),

held AS (
    SELECT
        (o.ts - m.start_ts)::BIGINT // w.ns AS place,
        w.ns,
        o.cpu,
        o.node,
        o.zone,
        sum(o.page_us)::DOUBLE * 1000 / nullif(sum(o.duration_ns), 0) AS pages,
        arg_max(o.high, o.ts)::DOUBLE AS high
    FROM pcp_occupancy AS o
    JOIN machine AS m USING (tape)
    CROSS JOIN width AS w
    WHERE o.ts >= m.start_ts
    GROUP BY ALL
),

by_cpu AS (
    SELECT place, ns, cpu, sum(pages) AS pages, sum(high) AS high FROM held GROUP BY place, ns, cpu
)

SELECT
    place * ns / 1e9 AS at_s,
    (place + 1) * ns / 1e9 AS until_s,
    sum(pages) AS all_pages,
    max(pages) AS fullest,
    sum(high) AS limit_pages
FROM by_cpu
GROUP BY place, ns
ORDER BY place

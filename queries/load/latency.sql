-- Latencies that the recorded command measured, by sample and order, and the share of huge faults.
--
-- `pagetape load` measures its faults, allocations, reads and writes while it is recorded; so does any other command that writes $PAGETAPE_SAMPLES.
-- Read p99_us first. `huge_percent` stands only where samples asked for a huge page: the share of all faults of that name that got one.
-- The durations hold the whole operation as the program saw it, with waits for a CPU. In a replay nothing of them is modelled.
--
-- Needs: sample_latency
--
-- Tier: -
--
-- Columns:
--   name          VARCHAR   What was measured.
--   page_order    UTINYINT  Order of the page; null if there is none.
--   nr            BIGINT    Number of samples.
--   mean_us       DOUBLE    Mean duration, in us.
--   p50_us        DOUBLE    Median, in us.
--   p95_us        DOUBLE    95th percentile, in us.
--   p99_us        DOUBLE    99th percentile, in us.
--   max_us        DOUBLE    Longest duration, in us.
--   huge_percent  DOUBLE    Of the samples of this name that asked for a huge page, those that got one, in percent.
WITH asked AS (
    SELECT name, 100.0 * count(*) FILTER (flags & 2 > 0) / count(*) AS huge_percent
    FROM sample_latency
    WHERE flags & 1 > 0
    GROUP BY name
),

found AS (
    SELECT
        name,
        page_order,
        count(*) AS nr,
        avg(ns) AS mean,
        quantile_disc(ns, [0.5, 0.95, 0.99]) AS quantiles,
        max(ns) AS most
    FROM sample_latency
    GROUP BY name, page_order
)

SELECT
    f.name,
    f.page_order,
    f.nr,
    round(f.mean / 1e3, 1) AS mean_us,
    round(f.quantiles[1] / 1e3, 1) AS p50_us,
    round(f.quantiles[2] / 1e3, 1) AS p95_us,
    round(f.quantiles[3] / 1e3, 1) AS p99_us,
    round(f.most / 1e3, 1) AS max_us,
    round(a.huge_percent, 1) AS huge_percent
FROM found AS f
LEFT JOIN asked AS a USING (name)
ORDER BY f.name, f.page_order

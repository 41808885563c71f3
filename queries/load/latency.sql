-- Durations that the recorded command measured: of each operation, and of each size of page.
--
-- `pagetape load` measures its faults, allocations, reads and writes while it is recorded; so does
-- any other command that writes $PAGETAPE_SAMPLES. Each name has a row for all of its samples, and one
-- for each order of page: of a fault, order 0 is a base page and the highest order a huge page. Read
-- p99_us first. `mean_p50_us` to `mean_p99_us` are the figures of simoop: the percentiles are taken in each
-- interval, and their mean is printed. `best50_us` to `best99_us` are those of mmtests: the mean of the
-- fastest samples. The durations are those that the program saw, with waits for a CPU. Nothing of
-- them is modelled in a replay.
--
-- Needs: sample_latency
-- Tier: -
--
-- Parameters:
--   interval_s  BIGINT 1..1000000 = 10  Length of an interval, in seconds.
--
-- Columns:
--   name          VARCHAR   What was measured.
--   page_order    UTINYINT  Order of the page; null: all samples of this name.
--   nr            BIGINT    Number of samples.
--   min_us        DOUBLE    The shortest duration, in us.
--   mean_us       DOUBLE    Mean duration, in us.
--   stddev_us     DOUBLE    Standard deviation, in us.
--   p50_us        DOUBLE    Median, in us.
--   p95_us        DOUBLE    95th percentile, in us.
--   p99_us        DOUBLE    99th percentile, in us.
--   max_us        DOUBLE    The longest duration, in us.
--   mean_p50_us   DOUBLE    Mean over the intervals of the median, in us.
--   mean_p95_us   DOUBLE    The same of the 95th percentile.
--   mean_p99_us   DOUBLE    The same of the 99th percentile.
--   best50_us     DOUBLE    Mean of the fastest 50 %, in us.
--   best95_us     DOUBLE    Mean of the fastest 95 %, in us.
--   best99_us     DOUBLE    Mean of the fastest 99 %, in us.
--   huge_percent  DOUBLE    Of the samples of this name that asked for a huge page, those that got one, in percent.
WITH sample AS (
    SELECT name, NULL::UTINYINT AS page_order, ts, ns, flags FROM sample_latency
    UNION ALL
    SELECT name, page_order, ts, ns, flags FROM sample_latency WHERE page_order IS NOT NULL
),

one AS (
    SELECT
        name,
        page_order,
        ns,
        flags,
        (ts - min(ts) OVER ()) // ($interval_s::BIGINT * 1000000000) AS slice,
        percent_rank() OVER (PARTITION BY name, page_order ORDER BY ns) AS place
    FROM sample
),

slice AS (
    SELECT name, page_order, quantile_cont(ns, [0.5, 0.95, 0.99]) AS quantiles
    FROM one
    GROUP BY name, page_order, slice
),

mean AS (
    SELECT
        name,
        page_order,
        avg(quantiles[1]) AS p50,
        avg(quantiles[2]) AS p95,
        avg(quantiles[3]) AS p99
    FROM slice
    GROUP BY name, page_order
),

found AS (
    SELECT
        name,
        page_order,
        count(*) AS nr,
        min(ns) AS least,
        avg(ns) AS mean,
        stddev_pop(ns) AS stddev,
        quantile_disc(ns, [0.5, 0.95, 0.99]) AS quantiles,
        max(ns) AS most,
        avg(ns) FILTER (place <= 0.5) AS best50,
        avg(ns) FILTER (place <= 0.95) AS best95,
        avg(ns) FILTER (place <= 0.99) AS best99,
        100.0 * count(*) FILTER (flags & 3 = 3) / nullif(count(*) FILTER (flags & 1 = 1), 0) AS huge
    FROM one
    GROUP BY name, page_order
)

SELECT
    f.name,
    f.page_order,
    f.nr,
    round(f.least / 1e3, 3) AS min_us,
    round(f.mean / 1e3, 3) AS mean_us,
    round(f.stddev / 1e3, 3) AS stddev_us,
    round(f.quantiles[1] / 1e3, 3) AS p50_us,
    round(f.quantiles[2] / 1e3, 3) AS p95_us,
    round(f.quantiles[3] / 1e3, 3) AS p99_us,
    round(f.most / 1e3, 3) AS max_us,
    round(m.p50 / 1e3, 3) AS mean_p50_us,
    round(m.p95 / 1e3, 3) AS mean_p95_us,
    round(m.p99 / 1e3, 3) AS mean_p99_us,
    round(f.best50 / 1e3, 3) AS best50_us,
    round(f.best95 / 1e3, 3) AS best95_us,
    round(f.best99 / 1e3, 3) AS best99_us,
    CASE WHEN f.page_order IS NULL THEN round(f.huge, 1) END AS huge_percent
FROM found AS f
JOIN mean AS m ON m.name = f.name AND m.page_order IS NOT DISTINCT FROM f.page_order
ORDER BY f.name, f.page_order NULLS FIRST

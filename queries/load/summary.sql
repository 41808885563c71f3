-- Durations that the recorded command measured, in the figures of simoop and mmtests.
--
-- Source: table `sample_latency`, which `pagetape load` and other programs fill. A fault counts as `huge`
-- if it got a huge page, otherwise as `base`, and in both cases as `fault`.
-- The percentiles are taken in each interval, and the row has their mean over the intervals.
-- `best50_us` is the mean of the fastest 50 % of the durations.
--
-- Needs: sample_latency
--
-- Tier: -
--
-- Parameters:
--   interval_s  BIGINT 1..1000000 = 10  Length of an interval, in seconds.
--
-- Columns:
--   name       VARCHAR  What was measured.
--   nr         BIGINT   Number of durations.
--   min_us     DOUBLE   The shortest one, in us.
--   mean_us    DOUBLE   Arithmetic mean, in us.
--   stddev_us  DOUBLE   Standard deviation, in us.
--   max_us     DOUBLE   The longest one, in us.
--   p50_us     DOUBLE   Median, mean over the intervals, in us.
--   p95_us     DOUBLE   95th percentile, mean over the intervals, in us.
--   p99_us     DOUBLE   99th percentile, mean over the intervals, in us.
--   best50_us  DOUBLE   Mean of the fastest 50 %, in us.
--   best95_us  DOUBLE   Mean of the fastest 95 %, in us.
--   best99_us  DOUBLE   Mean of the fastest 99 %, in us.
WITH named AS (
    SELECT unnest([name, CASE WHEN name = 'fault' THEN if(flags & 2 = 2, 'huge', 'base') END]) AS name, ts, ns / 1e3 AS us
    FROM sample_latency
),

one AS (
    SELECT
        name,
        us,
        (ts - min(ts) OVER ()) // ($interval_s::BIGINT * 1000000000) AS slice,
        percent_rank() OVER (PARTITION BY name ORDER BY us) AS place
    FROM named
    WHERE name IS NOT NULL
),

slice AS (
    SELECT
        name,
        quantile_cont(us, 0.5) AS p50,
        quantile_cont(us, 0.95) AS p95,
        quantile_cont(us, 0.99) AS p99
    FROM one
    GROUP BY name, slice
),

mean AS (
    SELECT name, avg(p50) AS p50, avg(p95) AS p95, avg(p99) AS p99 FROM slice GROUP BY name
)

SELECT
    o.name,
    count(*) AS nr,
    round(min(us), 3) AS min_us,
    round(avg(us), 3) AS mean_us,
    round(stddev_pop(us), 3) AS stddev_us,
    round(max(us), 3) AS max_us,
    round(any_value(m.p50), 3) AS p50_us,
    round(any_value(m.p95), 3) AS p95_us,
    round(any_value(m.p99), 3) AS p99_us,
    round(avg(us) FILTER (place <= 0.5), 3) AS best50_us,
    round(avg(us) FILTER (place <= 0.95), 3) AS best95_us,
    round(avg(us) FILTER (place <= 0.99), 3) AS best99_us
FROM one AS o
JOIN mean AS m USING (name)
GROUP BY o.name
ORDER BY o.name

-- How a fleet changes from day to day: fallbacks, stalls and failures per host-hour.
--
-- Each host counts once a day, however many tapes it has: p50, p90 and p99 are percentiles over hosts of the host's rate. A
-- host without an event has the rate 0. Only tapes that recorded such events count. Metrics are those of the view
-- rare_metric.
--
-- `change_percent` compares per_hour with that of the first day. Compare days of one mix of kernels: --where. A steal is one
-- event for each block on some kernels, and for each page on others (fallback_unit of fleet_tape).
--
-- Tier: -
--
-- Columns:
--   date            VARCHAR  UTC day on which the tapes began.
--   metric          VARCHAR  What is counted: see the view rare_metric.
--   hosts           BIGINT   Machines whose tapes recorded it.
--   hours           DOUBLE   Hours of their tapes.
--   total           DOUBLE   Sum of the metric.
--   per_hour        DOUBLE   Rate of all hosts together.
--   p50             DOUBLE   Median over hosts of the rate.
--   p90             DOUBLE   90th percentile over hosts.
--   p99             DOUBLE   99th percentile over hosts.
--   change_percent  DOUBLE   per_hour against the first day, in percent; null if that was 0.
WITH period AS (
    SELECT t.date, t.machine, m.measure, sum(t.hours) AS hours
    FROM fleet_tape AS t
    JOIN measured AS m USING (tape)
    GROUP BY ALL
),

found AS (
    SELECT t.date, t.machine, r.metric, r.measure, sum(r.total) AS total
    FROM rare_metric AS r
    JOIN fleet_tape AS t USING (tape)
    GROUP BY ALL
),

host AS (
    SELECT p.date, k.metric, p.hours, coalesce(f.total, 0) AS total
    FROM period AS p
    JOIN (SELECT DISTINCT metric, measure FROM found) AS k ON k.measure = p.measure
    LEFT JOIN found AS f ON f.date = p.date AND f.machine = p.machine AND f.metric = k.metric
)

SELECT
    date,
    metric,
    count(*) AS hosts,
    round(sum(hours), 3) AS hours,
    round(sum(total), 3) AS total,
    round(sum(total) / sum(hours), 6) AS per_hour,
    round(quantile_cont(total / hours, 0.5), 6) AS p50,
    round(quantile_cont(total / hours, 0.9), 6) AS p90,
    round(quantile_cont(total / hours, 0.99), 6) AS p99,
    0 + round(
        100 * (sum(total) / sum(hours)) / nullif(first(sum(total) / sum(hours)) OVER (PARTITION BY metric ORDER BY date), 0) - 100,
        1
    ) AS change_percent
FROM host
GROUP BY date, metric
ORDER BY metric, date

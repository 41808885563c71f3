-- Hosts that stand out from their fleet: rates of rare events far above those of the other hosts.
--
-- Each host has one rate of each metric, of all its tapes together. A host stands out if its rate is above the fence: three
-- interquartile ranges above the third quartile of the hosts' rates (Tukey's far outliers), on the scale of the logarithm of
-- the rate plus 1 per hour, and at least twice the third quartile plus 1 per hour. Of hosts that are alike, about 1 in
-- 400,000 lies beyond that fence by chance. Hosts with less than `min_minutes` do not take part: a burst on a short tape is
-- not a rate. Fewer than 8 hosts have no fence. Choose hosts of one kind with --where.
--
-- Tier: -
--
-- Parameters:
--   min_minutes  BIGINT 0..1000000 = 60  Least minutes that the tapes of a host cover.
--
-- Columns:
--   metric      VARCHAR  What is counted: see the view rare_metric.
--   machine     VARCHAR  Hash that stands for the machine.
--   host        VARCHAR  Name of the machine; null if unknown.
--   kernel      VARCHAR  Kernel release of its last tape.
--   total       DOUBLE   Sum of the metric on the host's tapes.
--   per_hour    DOUBLE   The host's rate.
--   p50         DOUBLE   Median over hosts.
--   fence       DOUBLE   Rate from which a host stands out.
--   times       DOUBLE   The rate plus 1 divided by the median plus 1.
--   hosts       BIGINT   Hosts with this measure.
--   hours       DOUBLE   Hours that the host's tapes cover.
--   worst_date  VARCHAR  UTC day with the highest sum: --where "machine = '...'" --since and --until choose its tapes.
WITH period AS (
    SELECT
        t.machine,
        m.measure,
        arg_max(t.host, t.began) AS host,
        arg_max(t.kernel, t.began) AS kernel,
        sum(t.hours) AS hours
    FROM fleet_tape AS t
    JOIN measured AS m USING (tape)
    GROUP BY t.machine, m.measure
    HAVING sum(t.hours) * 60 >= $min_minutes
),

daily AS (
    SELECT t.machine, t.date, r.metric, r.measure, sum(r.total) AS total
    FROM rare_metric AS r
    JOIN fleet_tape AS t USING (tape)
    GROUP BY ALL
),

found AS (
    SELECT machine, metric, measure, sum(total) AS total, arg_max(date, total) AS worst_date
    FROM daily
    GROUP BY ALL
    HAVING sum(total) > 0
),

rate AS (
    SELECT
        p.machine,
        p.host,
        p.kernel,
        p.hours,
        k.metric,
        f.worst_date,
        coalesce(f.total, 0) AS total,
        coalesce(f.total, 0) / p.hours AS per_hour
    FROM period AS p
    JOIN (SELECT DISTINCT metric, measure FROM found) AS k ON k.measure = p.measure
    LEFT JOIN found AS f ON f.machine = p.machine AND f.metric = k.metric
),

fence AS (
    SELECT
        metric,
        count(*) AS hosts,
        quantile_cont(per_hour, 0.5) AS p50,
        quantile_cont(ln(per_hour + 1), 0.25) AS low,
        quantile_cont(ln(per_hour + 1), 0.75) AS high
    FROM rate
    GROUP BY metric
    HAVING count(*) >= 8
)

SELECT
    r.* REPLACE (round(r.per_hour, 6) AS per_hour, round(r.hours, 3) AS hours),
    round(f.p50, 6) AS p50,
    round(exp(f.high + greatest(3 * (f.high - f.low), ln(2))) - 1, 6) AS fence,
    round((r.per_hour + 1) / (f.p50 + 1), 2) AS times,
    f.hosts
FROM rate AS r
JOIN fence AS f USING (metric)
WHERE ln(r.per_hour + 1) > f.high + greatest(3 * (f.high - f.low), ln(2))
ORDER BY times DESC, r.metric, r.machine

-- How a fleet changes from day to day: fallbacks, stalls and failures per host-hour.
--
-- Each host counts once a day, however many tapes it has: p50, p90 and p99 are percentiles over hosts of the host's rate. A
-- host without an event has the rate 0. Only tapes that recorded such events count. Metrics:
--
--   fallbacks       all fallbacks
--   mixing          fallbacks that left or put two migratetypes into a pageblock (claim, steal)
--   failed          failed allocations
--   direct_reclaim  runs of direct reclaim
--   stalls          stalls of threads in reclaim and compaction, overlaps merged
--   stalled_ms      their time, in ms
--
-- `change_percent` compares per_hour with that of the first day. Compare days of one mix of kernels: --where. A steal is one
-- event for each block on some kernels, and for each page on others (fallback_unit of fleet_tape).
--
-- Tier: -
--
-- Columns:
--   date            VARCHAR  UTC day on which the tapes began.
--   metric          VARCHAR  What is counted.
--   hosts           BIGINT   Machines whose tapes recorded it.
--   hours           DOUBLE   Hours of their tapes.
--   total           DOUBLE   Sum of the metric.
--   per_hour        DOUBLE   Rate of all hosts together.
--   p50             DOUBLE   Median over hosts of the rate.
--   p90             DOUBLE   90th percentile over hosts.
--   p99             DOUBLE   99th percentile over hosts.
--   change_percent  DOUBLE   per_hour against the first day, in percent; null if that was 0.
WITH point (metric, tracepoint) AS (
    VALUES
        ('fallbacks', 'kmem:mm_page_alloc_extfrag'),
        ('mixing', 'kmem:mm_page_alloc_extfrag'),
        ('failed', 'kmem:mm_page_alloc'),
        ('direct_reclaim', 'vmscan:mm_vmscan_direct_reclaim_begin'),
        ('stalls', 'vmscan:mm_vmscan_direct_reclaim_begin'),
        ('stalled_ms', 'vmscan:mm_vmscan_direct_reclaim_begin')
),

recording AS (
    SELECT tape, date, machine, recorded, hours
    FROM fleet_tape
    WHERE problem IS NULL AND NOT replayed AND hours > 0
),

part AS (
    SELECT
        r.date,
        r.machine,
        unnest(['fallbacks', 'mixing']) AS metric,
        unnest([sum(e.events), sum(e.events) FILTER (e.kind <> 'whole')])::DOUBLE AS total
    FROM fleet_extfrag AS e
    JOIN recording AS r USING (tape)
    GROUP BY r.date, r.machine
    UNION ALL
    SELECT r.date, r.machine, 'failed', sum(e.without_page)
    FROM fleet_event AS e
    JOIN recording AS r USING (tape)
    WHERE e.kind = 'alloc'
    GROUP BY r.date, r.machine
    UNION ALL
    SELECT r.date, r.machine, 'direct_reclaim', sum(e.runs)
    FROM fleet_reclaim AS e
    JOIN recording AS r USING (tape)
    WHERE e.what = 'direct_reclaim'
    GROUP BY r.date, r.machine
    UNION ALL
    SELECT r.date, r.machine, unnest(['stalls', 'stalled_ms']), unnest([sum(e.stalls), sum(e.total_us) / 1e3])
    FROM fleet_stall AS e
    JOIN recording AS r USING (tape)
    WHERE e.what = 'any'
    GROUP BY r.date, r.machine
),

-- Few rows, before the tracepoints are looked up.
covered AS (
    SELECT date, machine, recorded, sum(hours) AS hours FROM recording GROUP BY date, machine, recorded
),

member AS (
    SELECT c.date, p.metric, c.machine, sum(c.hours) AS hours
    FROM covered AS c
    JOIN point AS p ON was_recorded(c.recorded, p.tracepoint)
    GROUP BY c.date, p.metric, c.machine
),

host AS (
    SELECT m.date, m.metric, m.hours, coalesce(a.total, 0) AS total
    FROM member AS m
    LEFT JOIN part AS a ON a.date = m.date AND a.metric = m.metric AND a.machine = m.machine
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
    round(
        100 * (sum(total) / sum(hours)) / nullif(first(sum(total) / sum(hours)) OVER (PARTITION BY metric ORDER BY date), 0) - 100,
        1
    ) AS change_percent
FROM host
GROUP BY date, metric
ORDER BY metric, date

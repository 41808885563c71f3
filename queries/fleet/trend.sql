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

part AS (
    SELECT tape, 'fallbacks' AS metric, sum(events)::DOUBLE AS total FROM fleet_extfrag GROUP BY tape
    UNION ALL
    SELECT tape, 'mixing', sum(events) FROM fleet_extfrag WHERE kind <> 'whole' GROUP BY tape
    UNION ALL
    SELECT tape, 'failed', sum(without_page) FROM fleet_event WHERE kind = 'alloc' GROUP BY tape
    UNION ALL
    SELECT tape, what, runs FROM fleet_reclaim WHERE what = 'direct_reclaim'
    UNION ALL
    SELECT tape, unnest(['stalls', 'stalled_ms']), unnest([sum(stalls), sum(total_us) / 1e3])
    FROM fleet_stall
    WHERE what = 'any'
    GROUP BY tape
),

host AS (
    SELECT t.date, p.metric, t.machine, sum(t.hours) AS hours, coalesce(sum(a.total), 0) AS total
    FROM fleet_tape AS t
    CROSS JOIN point AS p
    LEFT JOIN part AS a ON a.tape = t.tape AND a.metric = p.metric
    WHERE t.problem IS NULL AND NOT t.replayed AND t.hours > 0 AND was_recorded(t.recorded, p.tracepoint)
    GROUP BY t.date, p.metric, t.machine
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

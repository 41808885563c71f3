-- Metrics of rare events of an archive's tapes, for rates per hour: the sum of each on each tape that has some.
--
-- Only tapes that have the measure (view measured) have rows. One of them without a row has 0.
--
-- Columns:
--   tape     BIGINT   Number of the tape; see fleet_tape.
--   metric   VARCHAR  What is counted; compact_*, thp_* and the like are counters of /proc/vmstat.
--   measure  VARCHAR  What a recording needs to have it; see measured.
--   total    DOUBLE   Sum of the metric.
WITH found AS (
    SELECT
        tape,
        unnest(['fallbacks', 'fallbacks claim', 'fallbacks steal']) AS metric,
        'fallbacks' AS measure,
        unnest([sum(events), sum(events) FILTER (kind = 'claim'), sum(events) FILTER (kind = 'steal')])::DOUBLE AS total
    FROM fleet_extfrag
    GROUP BY tape
    UNION ALL
    SELECT tape, 'failed allocations', 'allocs', sum(without_page) FROM fleet_event WHERE kind = 'alloc' GROUP BY tape
    UNION ALL
    SELECT tape, 'runs of direct reclaim', 'reclaim', runs FROM fleet_reclaim WHERE what = 'direct_reclaim'
    UNION ALL
    SELECT tape, 'runs of direct compaction', 'compaction', runs FROM fleet_reclaim WHERE what = 'direct_compaction'
    UNION ALL
    SELECT tape, unnest(['stalls', 'stalled ms']), 'reclaim', unnest([sum(stalls), sum(total_us) / 1e3])
    FROM fleet_stall
    WHERE what = 'any'
    GROUP BY tape
    UNION ALL
    SELECT tape, regexp_replace(name, '^allocstall.*', 'allocstall'), 'counters', sum(change)
    FROM fleet_counter
    WHERE regexp_matches(name, '^(allocstall|compact_(stall|fail)$|thp_fault_fallback$|oom_kill$)')
    GROUP BY ALL
)

SELECT tape, f.metric, measure, f.total
FROM found AS f
JOIN measured AS m USING (tape, measure)

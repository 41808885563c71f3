-- Reclaim, compaction and stalls: counts, pages and durations.
--
-- `compaction` is every run of compaction in a zone. By who asked for it: kcompactd after a wakeup
-- for an order (kcompactd_work), kcompactd because of the node's fragmentation score
-- (proactive_compaction), allocations (direct_compaction), and a task through /proc or /sys
-- (explicit_compaction). The report compaction.results has their results, and requests for
-- contiguous memory.
-- `compaction_try_to_compact_pages` counts the allocations that asked for compaction.
--
-- `balance_pgdat` is a pass of kswapd over its node, from 7.2 on. `kswapd_reclaim_fail` counts
-- passes that failed, and `kswapd_clear_hopeless` the ends of a row of failures, both from 7.0 on.
--
-- The report pairs begin and end of direct reclaim and of compaction per thread. The time of
-- direct_reclaim and direct_compaction is the wait of the allocating task. `memcg_reclaim` is reclaim of a
-- control group at its limit, or asked for through memory.reclaim. A run whose begin or end is outside the tape
-- counts without its time. A replayed tape has rows of the model's own reclaim if
-- it was played with --reclaim R1 or R2.
--
-- Needs: reclaim or compaction
-- Tier: B
--
-- Columns:
--   what      VARCHAR  Activity.
--   nr        BIGINT   Number of runs or events.
--   pages     BIGINT   Pages reclaimed or migrated, if the event has them.
--   total_ms  DOUBLE   Total time of these runs, in ms.
--   p50_ms    DOUBLE   Median: half of the runs were shorter, in ms.
--   p99_ms    DOUBLE   99th percentile: 1 % of the runs were longer, in ms.
--   max_ms    DOUBLE   The longest run, in ms.
WITH compact AS (
    SELECT
        CASE who
            WHEN 'kcompactd' THEN 'kcompactd_work'
            ELSE who || '_compaction'
        END AS what,
        moved AS pages,
        (until_ts - from_ts) / 1e6 AS ms
    FROM compaction_run
),

point AS (
    SELECT pid, ts, "at", kind, nr_reclaimed AS pages
    FROM reclaim
    WHERE kind IN (
        'wakeup_kswapd', 'kswapd_wake', 'kswapd_sleep', 'direct_reclaim_begin', 'direct_reclaim_end',
        'memcg_reclaim_begin', 'memcg_reclaim_end', 'node_reclaim_begin', 'node_reclaim_end',
        'throttled', 'mark_victim', 'balance_pgdat_begin', 'balance_pgdat_end', 'kswapd_reclaim_fail',
        'kswapd_clear_hopeless'
    )
    UNION ALL
    SELECT pid, ts, "at", 'compaction_' || kind, nr_migrated
    FROM compaction
    WHERE kind IN (
        'migratepages', 'wakeup_kcompactd', 'kcompactd_wake', 'kcompactd_sleep', 'deferred', 'try_to_compact_pages'
    )
),

run AS (
    SELECT
        regexp_replace(kind, '_(begin|end)$', '') AS what,
        kind LIKE '%\_end' ESCAPE '\' AS ended,
        pages,
        ts,
        lag(ts) OVER (PARTITION BY pid, what ORDER BY ts, "at", kind DESC) AS began,
        lag(kind) OVER (PARTITION BY pid, what ORDER BY ts, "at", kind DESC) LIKE '%\_begin' ESCAPE '\' AS paired,
        lead(kind) OVER (PARTITION BY pid, what ORDER BY ts, "at", kind DESC) LIKE '%\_end' ESCAPE '\' AS ends
    FROM point
    WHERE kind LIKE '%\_begin' ESCAPE '\' OR kind LIKE '%\_end' ESCAPE '\'
)

SELECT
    what,
    count(*) AS nr,
    sum(pages)::BIGINT AS pages,
    round(sum(ms), 3) AS total_ms,
    round(quantile_cont(ms, 0.5), 3) AS p50_ms,
    round(quantile_cont(ms, 0.99), 3) AS p99_ms,
    round(max(ms), 3) AS max_ms
FROM (
    SELECT what, pages, CASE WHEN ended AND paired THEN (ts - began) / 1e6 END AS ms
    FROM run
    WHERE ended OR ends IS NOT TRUE
    UNION ALL
    SELECT unnest(['compaction', what]), pages, ms
    FROM compact
    UNION ALL
    SELECT kind, pages, NULL
    FROM point
    WHERE kind NOT LIKE '%\_begin' ESCAPE '\' AND kind NOT LIKE '%\_end' ESCAPE '\'
)
GROUP BY what
ORDER BY what

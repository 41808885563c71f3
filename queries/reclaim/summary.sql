-- Reclaim, compaction and stalls: counts, pages and durations.
--
-- `compaction` is every run of compaction in a zone, of three kinds: kcompactd after a wakeup
-- for an order (kcompactd_work), kcompactd because of the node's fragmentation score
-- (proactive_compaction), and allocations (direct_compaction).
-- `compaction_try_to_compact_pages` counts the allocations that asked for compaction.
--
-- `balance_pgdat` is a pass of kswapd over its node, from 7.2 on. `kswapd_reclaim_fail` counts
-- passes that failed, and `kswapd_clear_hopeless` the ends of a row of failures, both from 7.0 on.
--
-- The report pairs begin and end of direct reclaim and of compaction per thread;
-- their time is the wait of the allocating task. A run whose begin or end is outside the tape
-- counts without its time. A replayed tape has rows of the model's own reclaim if
-- it was played with --reclaim R1 or R2.
--
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
WITH kcompactd AS (
    SELECT DISTINCT tape, pid FROM compaction WHERE kind IN ('kcompactd_wake', 'kcompactd_sleep')
),

compact AS (
    SELECT
        c.pid,
        c.ts,
        c."at",
        c.kind,
        CASE
            WHEN k.pid IS NULL THEN 'direct_compaction'
            WHEN last_value(CASE WHEN c.kind LIKE 'kcompactd%' THEN c.kind END IGNORE NULLS) OVER (
                PARTITION BY c.tape, c.pid ORDER BY c.ts, c."at"
            ) = 'kcompactd_sleep' THEN 'proactive_compaction'
            ELSE 'kcompactd_work'
        END AS what
    FROM compaction AS c
    LEFT JOIN kcompactd AS k USING (tape, pid)
    WHERE c.kind IN ('begin', 'end', 'kcompactd_wake', 'kcompactd_sleep')
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
        'begin', 'end', 'migratepages', 'wakeup_kcompactd', 'kcompactd_wake', 'kcompactd_sleep', 'deferred',
        'try_to_compact_pages'
    )
    UNION ALL
    SELECT pid, ts, "at", what || '_' || kind, NULL
    FROM compact
    WHERE kind IN ('begin', 'end')
),

run AS (
    SELECT
        regexp_replace(kind, '_(begin|end)$', '') AS what,
        kind LIKE '%\_end' ESCAPE '\' AS ended,
        pages,
        ts,
        lag(ts) OVER (PARTITION BY pid, what ORDER BY ts, "at") AS began,
        lag(kind) OVER (PARTITION BY pid, what ORDER BY ts, "at") LIKE '%\_begin' ESCAPE '\' AS paired,
        lead(kind) OVER (PARTITION BY pid, what ORDER BY ts, "at") LIKE '%\_end' ESCAPE '\' AS ends
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
    SELECT kind, pages, NULL
    FROM point
    WHERE kind NOT LIKE '%\_begin' ESCAPE '\' AND kind NOT LIKE '%\_end' ESCAPE '\'
)
GROUP BY what
ORDER BY what

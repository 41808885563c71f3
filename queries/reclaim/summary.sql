-- Reclaim, compaction and stalls: how often, how much, how long.
--
-- `compaction` is every run of compaction in a zone: of kcompactd when it was woken for an
-- order (kcompactd_work), or because the node's fragmentation score was high
-- (proactive_compaction), and of allocations (direct_compaction). The requests of these to
-- compact are compaction_try_to_compact_pages.
--
-- Runs of direct reclaim and of compaction are paired begin to end, per thread;
-- their time is what the allocating task waited. A run whose begin or end is
-- outside the tape is counted without its time. A replayed tape has rows of the model's
-- own reclaim, if it was played with --reclaim R1 or R2.
--
-- Tier: B
--
-- Columns:
--   what      VARCHAR  What happened.
--   nr        BIGINT   How often.
--   pages     BIGINT   Pages reclaimed or migrated, where the event tells.
--   total_ms  DOUBLE   Time in all such runs.
--   p50_ms    DOUBLE   Half of the runs were shorter.
--   p99_ms    DOUBLE   One in a hundred was longer.
--   max_ms    DOUBLE   The longest run.
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
        'throttled', 'mark_victim'
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

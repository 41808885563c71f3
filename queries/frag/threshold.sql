-- Fragmentation index beside vm.extfrag_threshold, and advice on it, by zone and order.
--
-- Direct compaction for orders above 3 starts only if the index of a zone is above vm.extfrag_threshold: near
-- 0, memory is short and reclaim is the better way; near 1000, free memory is fragmented (compaction_suitable of
-- mm/compaction.c). An index of -1000 means that a free block exists. A lower threshold compacts sooner and
-- reclaims less. Read `advice` first.
--
-- A moment is a snapshot or a sample. `refused` counts the checks that the threshold refused, `short` those refused
-- because too little memory was free: those the threshold cannot change. Results of compaction are those of
-- whole-zone checks at that order. `failed_index` is the median index at the last moment before the failures,
-- `age_s` seconds old: with few samples it says little.
--
-- Needs: free_area
-- Events: whole
-- Tier: A
--
-- Parameters:
--   threshold  BIGINT 0..1000  Value to judge; the tape's own, or the kernel's default of 500.
--
-- Columns:
--   node              USMALLINT  NUMA node.
--   zone              VARCHAR    Zone.
--   page_order        UTINYINT   Order.
--   threshold         BIGINT     vm.extfrag_threshold that the row judges, 0 to 1000.
--   moments           BIGINT     Moments with a known index.
--   block_free        BIGINT     Of these, moments with a free block of the order.
--   reclaims          BIGINT     Moments with an index from 0 to the threshold: the kernel reclaims.
--   compacts          BIGINT     Moments with an index above the threshold: the kernel compacts.
--   p50_index         BIGINT     Median index of the moments without a free block.
--   most_index        BIGINT     Largest of them.
--   checks            BIGINT     Checks whether the zone suits compaction, at that order; null if not recorded.
--   refused           BIGINT     Of these, refused by the threshold.
--   short             BIGINT     Of these, refused for lack of free memory.
--   succeeded         BIGINT     Compactions of the zone that ended with a free block.
--   failed            BIGINT     Compactions that scanned the whole zone and found none.
--   succeeded_index   BIGINT     Median index before the successes, of moments without a free block.
--   failed_index      BIGINT     Median index before the failures, of moments without a free block.
--   age_s             DOUBLE     Median age of that index, in seconds.
--   advice            VARCHAR    The conclusion, in words.
WITH setting AS (
    SELECT tape, coalesce($threshold::BIGINT, extfrag_threshold, 500)::BIGINT AS threshold, start_ts, compact_results
    FROM machine
),

indexed AS MATERIALIZED (
    SELECT tape, node, zone::VARCHAR AS zone, page_order, ts, max(fragmentation_index) AS index
    FROM frag_index
    WHERE page_order > 3 AND free_pages > 0
    GROUP BY ALL
),

counted AS (
    SELECT
        i.tape,
        i.node,
        i.zone,
        i.page_order,
        s.threshold,
        count(*) AS moments,
        count(*) FILTER (i.index < 0) AS block_free,
        count(*) FILTER (i.index BETWEEN 0 AND s.threshold) AS reclaims,
        count(*) FILTER (i.index > s.threshold) AS compacts,
        quantile_disc(i.index, 0.5) FILTER (i.index >= 0) AS p50_index,
        max(i.index) FILTER (i.index >= 0) AS most_index,
        quantile_disc(i.index, 0.5) FILTER (i.index BETWEEN 0 AND s.threshold) AS refused_index
    FROM indexed AS i
    JOIN setting AS s USING (tape)
    GROUP BY ALL
),

-- Only where enum compact_result has these numbers.
result AS (
    SELECT
        c.tape,
        c.node::USMALLINT AS node,
        c.zone::VARCHAR AS zone,
        c.page_order::UTINYINT AS page_order,
        c.ts,
        c.kind,
        c.status
    FROM compaction AS c
    JOIN setting AS s USING (tape)
    WHERE c.kind IN ('suitable', 'finished')
      AND c.page_order > 3
      AND c.node >= 0
      AND coalesce(s.compact_results, true)
),

ended AS (
    SELECT
        r.tape,
        r.node,
        r.zone,
        r.page_order,
        r.kind,
        r.status,
        i.index,
        (r.ts - i.ts) / 1e9 AS age_s
    FROM result AS r
    ASOF LEFT JOIN indexed AS i
        ON i.tape = r.tape AND i.node = r.node AND i.zone = r.zone AND i.page_order = r.page_order AND i.ts <= r.ts AND i.ts > 0
),

acted AS (
    SELECT
        tape,
        node,
        zone,
        page_order,
        count(*) FILTER (kind = 'suitable') AS checks,
        count(*) FILTER (kind = 'suitable' AND status = 0) AS refused,
        count(*) FILTER (kind = 'suitable' AND status = 1) AS short,
        count(*) FILTER (kind = 'finished' AND status = 8) AS succeeded,
        count(*) FILTER (kind = 'finished' AND status IN (5, 6)) AS failed,
        quantile_disc(index, 0.5) FILTER (kind = 'finished' AND status = 8 AND index >= 0) AS succeeded_index,
        quantile_disc(index, 0.5) FILTER (kind = 'finished' AND status IN (5, 6) AND index >= 0) AS failed_index,
        quantile_cont(age_s, 0.5) FILTER (kind = 'finished' AND status IN (5, 6, 8)) AS age_s
    FROM ended
    GROUP BY ALL
)

SELECT
    * REPLACE (round(a.age_s, 3) AS age_s),
    CASE
        WHEN a.refused > 0 AND c.reclaims > 0
            THEN printf('lower than %d lets compaction try: the threshold refused it %d times', c.refused_index, a.refused)
        WHEN a.failed > coalesce(a.succeeded, 0) AND a.failed_index > c.threshold
            THEN printf('%d or higher would reclaim instead: compaction failed %d of %d times', a.failed_index, a.failed, a.failed + a.succeeded)
        WHEN a.failed > coalesce(a.succeeded, 0)
            THEN printf('unclear: compaction failed %d of %d times, at an unknown index', a.failed, a.failed + a.succeeded)
        WHEN a.succeeded > 0 THEN printf('keep: compaction succeeded %d of %d times', a.succeeded, a.failed + a.succeeded)
        WHEN c.block_free = c.moments THEN printf('no effect: a block was free at all %d moments', c.moments)
        WHEN c.compacts > 0 THEN printf('keep: fragmented at %d of %d moments, and no compaction ended', c.compacts, c.moments)
        ELSE printf('no effect: memory was short, not fragmented, at %d of %d moments', c.reclaims, c.moments)
    END AS advice
FROM counted AS c
LEFT JOIN acted AS a USING (tape, node, zone, page_order)
ORDER BY c.node, c.zone, c.page_order

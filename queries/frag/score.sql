-- Fragmentation scores, and whether proactive compaction would start.
--
-- The score of a zone is the share of its free memory, in hundredths, in blocks smaller
-- than a huge page. The score of a node is the mean of its zones, weighted by their size.
-- If the node's score is above `high`, kcompactd starts, unless kswapd runs. It compacts each
-- zone until the zone's score is at most `low`. kcompactd checks every 500 ms; after a run
-- that did not lower the score, the next check is 32 s later. Proactive compaction exists
-- since 5.9. Since 6.16, `high` is nearer to `low` if vm.compaction_proactiveness is above 80, and
-- `low` may be below 5 (fragmentation_score_wmark, feature `proactive` of `pagetape kernels`).
--
-- Tier: A
--
-- Parameters:
--   proactiveness  INTEGER 0..100  vm.compaction_proactiveness, 0 to 100. Default: the machine's value.
--
-- Columns:
--   snapshot  USMALLINT  Number of the snapshot; null between snapshots (a sample, or the end of a replay interval).
--   at_s      DOUBLE     Seconds after the tape's first event; null where a snapshot's time is unknown.
--   node      USMALLINT  NUMA node.
--   zone      VARCHAR    Zone; null for the whole node.
--   score     BIGINT     Fragmentation score, 0 to 100.
--   low       BIGINT     Score at which compaction of a zone ends.
--   high      BIGINT     Node score above which kcompactd starts.
--   starts    BOOLEAN    Whether kcompactd would start; null for a zone.
WITH knob AS (
    SELECT
        tape,
        start_ts,
        proactive,
        pageblock_order,
        coalesce($proactiveness, compaction_proactiveness, 20) AS proactiveness,
        CASE
            WHEN proactive = 'PROACTIVE_LEEWAY' THEN 100 - proactiveness
            ELSE greatest(100 - proactiveness, 5)
        END AS low,
        CASE WHEN proactive = 'PROACTIVE_LEEWAY' THEN least(10, low // 2) ELSE 10 END AS leeway
    FROM machine
),

-- Zones at the end: a replay may change the nodes of the recording and split its zones.
size AS (
    SELECT
        tape,
        node,
        zone,
        sum(present)::BIGINT AS present,
        sum(sum(present)) OVER (PARTITION BY tape, node) AS of_node
    FROM zone
    WHERE (tape, snapshot) IN (SELECT (tape, max(snapshot)) FROM zone GROUP BY tape)
    GROUP BY tape, node, zone
),

one AS (
    SELECT i.tape, i.snapshot, i.ts, i.node, i.zone, i.extfrag_for_order AS score
    FROM frag_index AS i
    JOIN knob AS k ON k.tape = i.tape AND i.page_order = k.pageblock_order
),

every AS (
    SELECT * FROM one
    UNION ALL
    SELECT o.tape, o.snapshot, o.ts, o.node, NULL, sum(s.present * o.score // (s.of_node + 1))
    FROM one AS o
    JOIN size AS s ON s.tape = o.tape AND s.node = o.node AND s.zone = o.zone
    GROUP BY o.tape, o.snapshot, o.ts, o.node
)

SELECT
    *,
    CASE WHEN e.ts > 0 THEN round((e.ts::BIGINT - k.start_ts::BIGINT) / 1e9, 3) + 0.0 END AS at_s,
    least(k.low + k.leeway, 100)::BIGINT AS high,
    CASE
        WHEN e.zone IS NULL THEN k.proactiveness > 0 AND k.proactive != 'PROACTIVE_NONE' AND e.score > least(k.low + k.leeway, 100)
    END AS starts
FROM every AS e
JOIN knob AS k USING (tape)
ORDER BY e.snapshot IS NULL, e.snapshot, e.ts, e.node, e.zone IS NOT NULL, e.zone

-- Pages scanned, reclaimed and written, by who reclaimed: kswapd, direct reclaim, control groups.
--
-- `kswapd` is the node's thread, `direct` an allocation that reclaims for itself, `memcg` a control
-- group at its limit or through memory.reclaim, `node` reclaim of vm.zone_reclaim_mode, and `other`
-- the rest, for example MADV_PAGEOUT. A thread belongs to the begin before the event, or
-- to the next end if the tape starts within a run. `written` counts the pages that reclaim itself
-- sent to swap or to a file, not those that the flusher threads wrote. A replay has runs but no scans.
--
-- Events: whole
-- Needs: reclaim.lru_shrink_inactive or reclaim or compaction
-- Tier: -
--
-- Columns:
--   actor         VARCHAR  kswapd, direct, memcg, node or other.
--   runs          BIGINT   Passes of kswapd, or runs of the others that ended.
--   scanned       HUGEINT  Pages scanned on inactive lists (mm_vmscan_lru_shrink_inactive).
--   reclaimed     HUGEINT  Pages of them that were freed.
--   efficiency    DOUBLE   reclaimed / scanned, 0 to 1.
--   written       BIGINT   Pages written by reclaim (mm_vmscan_write_folio).
--   written_anon  BIGINT   Pages of them that went to swap.
WITH kswapd AS (
    SELECT DISTINCT tape, pid FROM reclaim WHERE kind IN ('kswapd_wake', 'kswapd_sleep')
),

step AS (
    SELECT
        r.tape,
        r.pid,
        r.ts,
        r."at",
        r.kind::VARCHAR AS kind,
        r.nr_scanned,
        r.nr_reclaimed,
        r.reclaim_flags,
        k.pid IS NOT NULL AS kswapd,
        nullif(regexp_extract(r.kind::VARCHAR, '^(direct|memcg|node)_reclaim_(begin|end)$', 1), '') AS who,
        r.kind::VARCHAR LIKE '%\_end' ESCAPE '\' AS ended
    FROM reclaim AS r
    LEFT JOIN kswapd AS k USING (tape, pid)
    WHERE r.kind IN (
        'lru_shrink_inactive', 'write_folio', 'kswapd_wake', 'direct_reclaim_begin', 'direct_reclaim_end',
        'memcg_reclaim_begin', 'memcg_reclaim_end', 'node_reclaim_begin', 'node_reclaim_end'
    )
),

within AS (
    SELECT
        *,
        last_value(CASE WHEN who IS NOT NULL THEN {who: who, ended: ended} END IGNORE NULLS) OVER before AS mark,
        first_value(CASE WHEN who IS NOT NULL THEN {who: who, ended: ended} END IGNORE NULLS) OVER beyond AS next_mark
    FROM step
    WINDOW
        before AS (PARTITION BY tape, pid ORDER BY ts, "at" ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW),
        beyond AS (PARTITION BY tape, pid ORDER BY ts, "at" ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
),

by_actor AS (
    SELECT
        *,
        CASE
            WHEN kswapd THEN 'kswapd'
            WHEN who IS NOT NULL THEN who
            WHEN mark IS NULL AND next_mark.ended THEN next_mark.who
            WHEN NOT mark.ended THEN mark.who
            ELSE 'other'
        END AS actor,
        if(m.replayed, NULL, 0) AS zero
    FROM within
    CROSS JOIN machine AS m
)

SELECT
    actor,
    count(*) FILTER (kind = 'kswapd_wake' OR (NOT kswapd AND ended)) AS runs,
    coalesce(sum(nr_scanned) FILTER (kind = 'lru_shrink_inactive'), any_value(zero)) AS scanned,
    coalesce(sum(nr_reclaimed) FILTER (kind = 'lru_shrink_inactive'), any_value(zero)) AS reclaimed,
    round(reclaimed / nullif(scanned, 0), 3) AS efficiency,
    count(*) FILTER (kind = 'write_folio') + any_value(zero) AS written,
    count(*) FILTER (kind = 'write_folio' AND reclaim_flags & 1 = 1) + any_value(zero) AS written_anon
FROM by_actor
GROUP BY actor
ORDER BY array_position(['kswapd', 'direct', 'memcg', 'node', 'other'], actor)

-- Calls for kswapd and kcompactd, failures of kswapd, OOM kills, throttling and failed allocations, one mark each.
--
-- Columns:
--   pid   INTEGER  Process of the track.
--   tid   INTEGER  Thread of the track.
--   ts    UBIGINT  Trace clock, ns.
--   name  VARCHAR  The event.
--   args  STRUCT   node, zone, page_order, gfp, victim_pid, usec_delayed.
WITH mark AS (
    SELECT pid, ts, replace(kind, '_', ' ') AS name, node, zone, page_order, gfp_flags,
        victim_pid, usec_delayed
    FROM reclaim
    WHERE kind IN (
        'wakeup_kswapd', 'kswapd_reclaim_fail', 'kswapd_clear_hopeless', 'mark_victim', 'throttled'
    )
    UNION ALL
    SELECT pid, ts, 'wakeup kcompactd', node, zone, page_order, NULL, NULL, NULL
    FROM compaction
    WHERE kind = 'wakeup_kcompactd'
    UNION ALL
    SELECT pid, ts, 'allocation failed', NULL, NULL, page_order, gfp_flags, NULL, NULL
    FROM event
    WHERE kind = 'alloc' AND pfn IS NULL
)
SELECT coalesce(t.tgid, pid) AS pid, pid AS tid, ts, name,
    {'node': node, 'zone': zone, 'page_order': page_order,
    'gfp': nullif(gfp_names(gfp_flags), ''), 'victim_pid': victim_pid,
    'usec_delayed': usec_delayed} AS args
FROM mark LEFT JOIN task AS t USING (pid)
ORDER BY ALL

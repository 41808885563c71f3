-- Work of kswapd and kcompactd, one slice each.
--
-- A slice begins at a pass of kswapd, or at a wake of kcompactd. It ends at the next one, when the
-- thread sleeps, or with the tape.
--
-- Columns:
--   pid   INTEGER  Process of the track.
--   tid   INTEGER  Thread of the track.
--   ts    UBIGINT  Trace clock, ns.
--   ns    UBIGINT  Duration, ns.
--   name  VARCHAR  kswapd or kcompactd.
--   args  STRUCT   node, zone, page_order.
WITH edge AS (
    SELECT pid, ts, "at", kind, node, zone, page_order FROM reclaim
    WHERE kind IN ('kswapd_wake', 'kswapd_sleep')
    UNION ALL
    SELECT pid, ts, "at", kind, node, zone, page_order FROM compaction
    WHERE kind IN ('kcompactd_wake', 'kcompactd_sleep')
),
turn AS (SELECT *, lead(ts) OVER (PARTITION BY pid ORDER BY ts, "at") AS next_ts FROM edge)
SELECT coalesce(t.tgid, pid) AS pid, pid AS tid, ts,
    coalesce(next_ts, m.end_ts) - ts AS ns,
    replace(kind, '_wake', '') AS name,
    {'node': node, 'zone': zone, 'page_order': page_order} AS args
FROM turn LEFT JOIN task AS t USING (pid) CROSS JOIN machine AS m
WHERE kind LIKE '%_wake'
ORDER BY ALL

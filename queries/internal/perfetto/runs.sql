-- Direct reclaim and direct compaction, one slice per run, in the thread that ran it.
--
-- A run without its end on the tape lasts until the tape's end.
--
-- Columns:
--   ph    VARCHAR  X: a slice.
--   pid   INTEGER  Process of the track.
--   tid   INTEGER  Thread of the track.
--   ts    UBIGINT  Trace clock, ns.
--   ns    UBIGINT  Duration, ns.
--   name  VARCHAR  direct reclaim, memcg reclaim, node reclaim or compaction.
--   args  STRUCT   page_order, nr_reclaimed, status; end: "not recorded" if so.
WITH edge AS (
    SELECT pid, ts, "at", regexp_replace(kind, '_(begin|end)$', '') AS name,
        kind LIKE '%begin' AS begins, page_order, nr_reclaimed, NULL AS status
    FROM reclaim
    WHERE regexp_matches(kind, '^(direct|memcg|node)_reclaim_(begin|end)$')
    UNION ALL
    SELECT pid, ts, "at", 'compaction', kind = 'begin', NULL, NULL, status
    FROM compaction
    WHERE kind IN ('begin', 'end')
),
run AS (
    SELECT pid, ts, name, begins, page_order,
        lead(begins) OVER thread IS NOT DISTINCT FROM FALSE AS ended,
        lead(ts) OVER thread AS next_ts,
        lead(nr_reclaimed) OVER thread AS nr_reclaimed,
        lead(status) OVER thread AS status
    FROM edge
    WINDOW thread AS (PARTITION BY pid, name ORDER BY ts, "at", begins)
)
SELECT 'X' AS ph, coalesce(t.tgid, pid) AS pid, pid AS tid, ts,
    if(ended, next_ts, m.end_ts) - ts AS ns, replace(name, '_', ' ') AS name,
    {'page_order': page_order, 'nr_reclaimed': if(ended, nr_reclaimed, NULL),
    'status': if(ended, status, NULL), 'end': if(ended, NULL, 'not recorded')} AS args
FROM run LEFT JOIN task AS t USING (pid) CROSS JOIN machine AS m
WHERE begins
ORDER BY ALL

-- Reclaim and compaction by tasks and kcompactd, one slice per run, in the thread that ran it.
--
-- A run without its end on the tape lasts until the tape's end.
--
-- Columns:
--   pid   INTEGER  Process of the track.
--   tid   INTEGER  Thread of the track.
--   ts    UBIGINT  Trace clock, ns.
--   ns    UBIGINT  Duration, ns.
--   name  VARCHAR  direct reclaim, memcg reclaim, node reclaim, or compaction by who asked for it:
--                  direct, kcompactd, proactive, explicit or unknown compaction.
--   args  STRUCT   page_order, nr_reclaimed; of compaction zone, outcome, moved, failed; end: "not recorded" if so.
WITH edge AS (
    SELECT pid, ts, "at", regexp_replace(kind, '_(begin|end)$', '') AS name,
        kind LIKE '%begin' AS begins, page_order, nr_reclaimed
    FROM reclaim
    WHERE regexp_matches(kind, '^(direct|memcg|node)_reclaim_(begin|end)$')
),
paired AS (
    SELECT pid, ts, name, begins, page_order,
        lead(begins) OVER thread IS NOT DISTINCT FROM FALSE AS ended,
        lead(ts) OVER thread AS next_ts,
        lead(nr_reclaimed) OVER thread AS nr_reclaimed
    FROM edge
    WINDOW thread AS (PARTITION BY pid, name ORDER BY ts, "at", begins)
),
run AS (
    SELECT pid, ts, name, page_order::INTEGER AS page_order, ended, next_ts, if(ended, nr_reclaimed, NULL) AS nr_reclaimed,
        NULL AS zone, NULL AS outcome, NULL AS moved, NULL AS failed
    FROM paired
    WHERE begins
    UNION ALL
    SELECT pid, from_ts, who || ' compaction', page_order, until_ts IS NOT NULL, until_ts, NULL,
        zone, outcome, moved, failed
    FROM compaction_run
    WHERE from_ts IS NOT NULL
)
SELECT coalesce(t.tgid, pid) AS pid, pid AS tid, ts,
    if(ended, next_ts, m.end_ts) - ts AS ns, replace(name, '_', ' ') AS name,
    {'page_order': page_order, 'nr_reclaimed': nr_reclaimed, 'zone': zone, 'outcome': outcome,
    'moved': moved, 'failed': failed, 'end': if(ended, NULL, 'not recorded')} AS args
FROM run LEFT JOIN task AS t USING (pid) CROSS JOIN machine AS m
ORDER BY ALL

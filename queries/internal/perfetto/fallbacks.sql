-- Fallbacks, one mark each, in the thread that allocated.
--
-- Columns:
--   pid   INTEGER  Process of the track.
--   tid   INTEGER  Thread of the track.
--   ts    UBIGINT  Trace clock, ns.
--   name  VARCHAR  Both migratetypes.
--   args  STRUCT   kind, page_order, fallback_order, pfn, cpu.
SELECT coalesce(t.tgid, pid) AS pid, pid AS tid, ts,
    'fallback ' || alloc_migratetype || ' from ' || fallback_migratetype AS name,
    {'kind': f.kind, 'page_order': alloc_order, 'fallback_order': fallback_order, 'pfn': pfn,
    'cpu': cpu} AS args
FROM extfrag AS f LEFT JOIN task AS t USING (pid)
ORDER BY ALL

-- Fallbacks by the kernel code that requested the page.
--
-- The report shows which kernel functions fragment memory: read `below_pageblock` first.
-- Stacks come from `record --stacks extfrag`, or from a trace.dat that contains them.
-- Flame graph tools read one line per row: `folded`, a blank, and `nr`.
--
-- Tier: A
--
-- Parameters:
--   top  BIGINT 0..1000000000 = 25  Maximum number of rows.
--
-- Columns:
--   below_pageblock      BIGINT   Fallbacks below pageblock order: they mix migratetypes.
--   nr                   BIGINT   All fallbacks.
--   steals               BIGINT   Fallbacks that left the pageblock's migratetype unchanged.
--   alloc_orders         VARCHAR  Requested orders.
--   alloc_migratetypes   VARCHAR  Requested migratetypes.
--   fallback_migratetypes VARCHAR  Migratetypes of the free lists that lost a page.
--   folded               VARCHAR  Function names, outermost first; [no stack] if none was recorded.
SELECT
    count(*) FILTER (f.below_pageblock) AS below_pageblock,
    count(*) AS nr,
    count(*) FILTER (f.kind = 'steal') AS steals,
    string_agg(DISTINCT f.alloc_order::VARCHAR, ' ' ORDER BY f.alloc_order::VARCHAR) AS alloc_orders,
    string_agg(DISTINCT f.alloc_migratetype, ' ' ORDER BY f.alloc_migratetype) AS alloc_migratetypes,
    string_agg(DISTINCT f.fallback_migratetype, ' ' ORDER BY f.fallback_migratetype)
        AS fallback_migratetypes,
    coalesce(l.folded, '[no stack]') AS folded
FROM extfrag AS f
LEFT JOIN stack AS s ON f.tape = s.tape AND f.ts = s.event_ts AND f.cpu = s.cpu AND f.pid = s.pid
LEFT JOIN folded AS l ON s.tape = l.tape AND s.stack = l.stack
GROUP BY coalesce(l.folded, '[no stack]')
ORDER BY below_pageblock DESC, nr DESC, folded
LIMIT $top::BIGINT

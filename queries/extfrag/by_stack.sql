-- Fallbacks by the kernel code that asked for the page.
--
-- What fragments memory, to the function: read `below_pageblock` first. Stacks are
-- recorded with `record --stacks extfrag`, or come with a trace.dat that has them.
-- With --json, "folded nr" of each row is what flame graph tools read.
--
-- Tier: A
--
-- Parameters:
--   top  BIGINT = 25  Rows at most.
--
-- Columns:
--   below_pageblock      BIGINT   Fallbacks below pageblock order: they mix migratetypes.
--   nr                   BIGINT   All fallbacks.
--   steals               BIGINT   Fallbacks that left the pageblock to its owner.
--   alloc_orders         VARCHAR  Orders asked for.
--   alloc_migratetypes   VARCHAR  Migratetypes asked for.
--   fallback_migratetypes VARCHAR  Migratetypes raided.
--   folded               VARCHAR  The functions, outermost first; [no stack] where none was recorded.
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

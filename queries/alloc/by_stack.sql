-- Allocations by the kernel code that requested the pages.
--
-- Only allocations whose stack is on the tape count: those of `record --stacks alloc`, or of its condition (`info` shows it).
-- `replay --rewrite 'stack ~ "FUNCTION" : ...'` plays such requests otherwise.
-- Flame graph tools read one line per row: `folded`, a blank, and `nr`.
--
-- Needs: event.alloc
-- Tier: A
--
-- Parameters:
--   top  BIGINT 0..1000000000 = 25  Maximum number of rows.
--
-- Columns:
--   pages         BIGINT   Pages allocated.
--   nr            BIGINT   Allocations, failed or not.
--   failed        BIGINT   Of these, allocations that failed.
--   alloc_orders  VARCHAR  Requested orders.
--   migratetypes  VARCHAR  Requested migratetypes.
--   gfp_flags     VARCHAR  Most frequent gfp flags.
--   comm          VARCHAR  Most frequent thread, or its pid if the name is unknown.
--   folded        VARCHAR  Function names, outermost first; [unknown] beyond 65536 different stacks.
SELECT
    coalesce(sum(1::BIGINT << e.page_order::INTEGER) FILTER (e.pfn IS NOT NULL), 0)::BIGINT AS pages,
    count(*) AS nr,
    count(*) FILTER (e.pfn IS NULL) AS failed,
    string_agg(DISTINCT e.page_order::VARCHAR, ' ' ORDER BY e.page_order::VARCHAR) AS alloc_orders,
    string_agg(DISTINCT e.migratetype::VARCHAR, ' ' ORDER BY e.migratetype::VARCHAR) AS migratetypes,
    gfp_names(mode(e.gfp_flags ORDER BY e.gfp_flags)) AS gfp_flags,
    mode(coalesce(t.comm, e.pid::VARCHAR) ORDER BY coalesce(t.comm, e.pid::VARCHAR)) AS comm,
    coalesce(l.folded, '[unknown]') AS folded
FROM stack AS s
JOIN event AS e
    ON e.tape = s.tape AND e.ts = s.event_ts AND e.cpu = s.cpu AND e.pid = s.pid AND e.kind = 'alloc'
LEFT JOIN folded AS l ON l.tape = s.tape AND l.stack = s.stack
LEFT JOIN task AS t ON t.tape = e.tape AND t.pid = e.pid
GROUP BY coalesce(l.folded, '[unknown]')
ORDER BY pages DESC, nr DESC, folded
LIMIT $top::BIGINT

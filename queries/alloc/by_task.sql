-- Allocations by task, largest first.
--
-- Threads of one name are one row. In interrupt context the task is only the one
-- interrupted.
--
-- Tier: A
--
-- Parameters:
--   top  BIGINT = 25  Rows at most.
--
-- Columns:
--   comm        VARCHAR  Name of the thread, or its pid where the name is unknown.
--   threads     BIGINT   Threads of that name.
--   allocs      BIGINT   Allocations.
--   pages       BIGINT   Pages allocated.
--   high_order  BIGINT   Allocations of order 1 or more.
--   interrupt   BIGINT   Allocations in hard or soft interrupt context.
--   frees       BIGINT   Frees.
SELECT
    coalesce(t.comm, e.pid::VARCHAR) AS comm,
    count(DISTINCT e.pid) AS threads,
    sum(e.allocs)::BIGINT AS allocs,
    sum(e.pages)::BIGINT AS pages,
    sum(e.high_order)::BIGINT AS high_order,
    sum(e.interrupt)::BIGINT AS interrupt,
    sum(e.frees)::BIGINT AS frees
FROM (
    SELECT
        tape,
        pid,
        count(*) FILTER (kind = 'alloc') AS allocs,
        coalesce(sum(1::BIGINT << page_order::INTEGER) FILTER (kind = 'alloc' AND pfn IS NOT NULL), 0) AS pages,
        count(*) FILTER (kind = 'alloc' AND page_order > 0) AS high_order,
        count(*) FILTER (kind = 'alloc' AND (flags & 6) <> 0) AS interrupt,
        count(*) FILTER (kind = 'free') AS frees
    FROM event
    WHERE kind IN ('alloc', 'free')
    GROUP BY tape, pid
) AS e
LEFT JOIN task AS t USING (tape, pid)
GROUP BY coalesce(t.comm, e.pid::VARCHAR)
ORDER BY pages DESC, allocs DESC, comm
LIMIT $top::BIGINT

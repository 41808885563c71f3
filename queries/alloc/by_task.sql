-- Allocations by task, largest first.
--
-- Threads with the same name share a row. In interrupt context the task is the interrupted
-- one: it did not request the page.
--
-- Needs: event.alloc
-- Tier: A
--
-- Parameters:
--   top  BIGINT 0..1000000000 = 25  Maximum number of rows.
--
-- Columns:
--   comm        VARCHAR  Thread name, or the pid if the name is unknown.
--   threads     BIGINT   Threads with that name.
--   allocs      BIGINT   Allocations, failed ones included.
--   pages       BIGINT   Pages allocated.
--   high_order  BIGINT   Allocations of order 1 or more.
--   interrupt   BIGINT   Allocations in hard or soft interrupt context.
--   frees       BIGINT   Frees.
WITH counted AS (
    SELECT
        tape,
        pid,
        kind,
        page_order,
        in_interrupt,
        sum(events)::BIGINT AS nr,
        sum(events - without_page)::BIGINT << page_order::INTEGER AS pages
    FROM event_group
    WHERE kind IN ('alloc', 'free')
    GROUP BY tape, pid, kind, page_order, in_interrupt
)

SELECT
    coalesce(t.comm, c.pid::VARCHAR) AS comm,
    count(DISTINCT c.pid) AS threads,
    coalesce(sum(c.nr) FILTER (c.kind = 'alloc'), 0)::BIGINT AS allocs,
    coalesce(sum(c.pages) FILTER (c.kind = 'alloc'), 0)::BIGINT AS pages,
    coalesce(sum(c.nr) FILTER (c.kind = 'alloc' AND c.page_order > 0), 0)::BIGINT AS high_order,
    coalesce(sum(c.nr) FILTER (c.kind = 'alloc' AND c.in_interrupt), 0)::BIGINT AS interrupt,
    coalesce(sum(c.nr) FILTER (c.kind = 'free'), 0)::BIGINT AS frees
FROM counted AS c
LEFT JOIN task AS t USING (tape, pid)
GROUP BY coalesce(t.comm, c.pid::VARCHAR)
ORDER BY pages DESC, allocs DESC, comm
LIMIT $top::BIGINT

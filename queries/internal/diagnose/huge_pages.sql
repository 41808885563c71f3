-- Requests for huge pages, their failures by cause, and what compaction did for them.
--
-- Events count every request of pageblock order, from page faults and from the kernel. The
-- counters of /proc/vmstat count page faults only: see diagnose.counters. Requests of the recorder are left out. Causes as in
-- the view huge_failure: the first try of a fault does not count if a second follows.
--
-- Columns:
--   requests  BIGINT   Allocations of pageblock order.
--   failed    BIGINT   Of these, failures: memory + block + policy + unknown.
--   memory    BIGINT   Failures for want of memory.
--   block     BIGINT   Failures for want of a block, although the request may compact.
--   policy    BIGINT   Failures for want of a block of requests that may not compact, or not leave their node.
--   unknown   BIGINT   Failures whose cause is unknown.
--   task      VARCHAR  Task with most failures; null without one.
--   task_nr   BIGINT   Its failures.
--   recorder  BIGINT   Failures of the recorder's own requests, which are left out.
--   deferred  BIGINT   Compactions skipped after too many failures.
--   asked     BIGINT   Allocations that asked for direct compaction.
WITH wanted AS (
    SELECT coalesce(sum(e.events), 0)::BIGINT AS requests
    FROM event_group AS e
    JOIN machine AS m USING (tape)
    WHERE e.kind = 'alloc'
      AND e.page_order = m.pageblock_order
      AND (e.tape, e.pid) NOT IN (SELECT (tape, pid) FROM recorder_task)
),

lost AS MATERIALIZED (
    SELECT h.cause, h.by_recorder, coalesce(t.comm, h.pid::VARCHAR) AS comm
    FROM huge_failure AS h
    LEFT JOIN task AS t USING (tape, pid)
),

task_lost AS (
    SELECT comm, count(*) AS nr FROM lost WHERE NOT by_recorder GROUP BY comm ORDER BY nr DESC, comm LIMIT 1
),

caused AS (
    SELECT
        count(*) FILTER (NOT by_recorder) AS failed,
        count(*) FILTER (NOT by_recorder AND cause = 'memory') AS memory,
        count(*) FILTER (NOT by_recorder AND cause = 'block') AS block,
        count(*) FILTER (NOT by_recorder AND cause = 'policy') AS policy,
        count(*) FILTER (NOT by_recorder AND cause = 'unknown') AS unknown,
        count(*) FILTER (by_recorder) AS recorder
    FROM lost
),

compact AS (
    SELECT
        count(*) FILTER (kind = 'deferred') AS deferred,
        count(*) FILTER (kind = 'try_to_compact_pages') AS asked
    FROM compaction
    WHERE kind IN ('deferred', 'try_to_compact_pages')
)

SELECT
    *,
    t.comm AS task,
    t.nr AS task_nr
FROM wanted AS w
CROSS JOIN caused AS l
CROSS JOIN compact AS c
LEFT JOIN task_lost AS t ON true

-- Time in compaction that no allocation asked for: by kcompactd, and by tasks through /proc or /sys.
--
-- A run whose begin or end is not on the tape lasts from the tape's begin, or to its end. Runs of several
-- tasks at the same time count once in `busy_s`.
--
-- Columns:
--   who          VARCHAR  kcompactd (one row a node), explicit (one row) or unknown (one row).
--   node         INTEGER  NUMA node of the kcompactd; null if unknown.
--   task         VARCHAR  Thread that compacted longest.
--   cgroup       VARCHAR  Its control group; null if unknown.
--   tasks        BIGINT   Threads that compacted.
--   runs         BIGINT   Runs in a zone.
--   busy_s       DOUBLE   Time with such a run, in seconds.
--   max_ms       DOUBLE   Longest run, in ms.
--   asked_runs   BIGINT   Runs of kcompactd for an order.
--   asked_s      DOUBLE   Their time, in seconds.
--   page_order   INTEGER  Highest of these orders.
--   successes    BIGINT   Of these runs, those that made a block of the order.
--   ended        BIGINT   Of these runs, those whose result is on the tape.
--   moved        BIGINT   Pages moved; null if not recorded.
--   failed       BIGINT   Pages that did not move; null if not recorded.
WITH run AS MATERIALIZED (
    SELECT
        r.*,
        if(r.who = 'proactive', 'kcompactd', r.who) AS class,
        greatest(coalesce(r.from_ts, m.start_ts), m.start_ts) AS since,
        least(coalesce(r.until_ts, m.end_ts), m.end_ts) AS until
    FROM compaction_run AS r
    JOIN machine AS m USING (tape)
    WHERE r.who <> 'direct'
),

-- Zones are known by their node; a kcompactd has one node. Those of a replay share pid 0.
placed AS (
    SELECT *, if(class = 'kcompactd', max(node) OVER (PARTITION BY pid, if(pid = 0, node, NULL)), NULL) AS of_node
    FROM run
    WHERE until >= since
),

reached AS (
    SELECT
        *,
        max(until) OVER (
            PARTITION BY class, of_node ORDER BY since, until ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS reach
    FROM placed
),

by_task AS (
    SELECT class, of_node, pid, sum((until - since)::DOUBLE) AS ns FROM placed GROUP BY class, of_node, pid
),

longest AS (
    SELECT class, of_node, arg_max(pid, ns) AS pid, count(*) AS tasks FROM by_task GROUP BY class, of_node
)

SELECT
    r.class AS who,
    r.of_node AS node,
    coalesce(any_value(t.comm), any_value(l.pid)::VARCHAR) AS task,
    min(t.cgroup) AS cgroup,
    any_value(l.tasks) AS tasks,
    count(*) AS runs,
    (sum(greatest(r.until::HUGEINT - greatest(r.since, coalesce(r.reach, r.since))::HUGEINT, 0)) / 1e9)::DOUBLE AS busy_s,
    max(r.until - r.since) / 1e6 AS max_ms,
    count(*) FILTER (r.who = 'kcompactd') AS asked_runs,
    coalesce(sum((r.until - r.since)::DOUBLE) FILTER (r.who = 'kcompactd'), 0) / 1e9 AS asked_s,
    max(r.page_order) FILTER (r.who = 'kcompactd') AS page_order,
    count(*) FILTER (r.who = 'kcompactd' AND r.outcome = 'success') AS successes,
    count(*) FILTER (r.who = 'kcompactd' AND r.outcome IS NOT NULL) AS ended,
    sum(r.moved)::BIGINT AS moved,
    sum(r.failed)::BIGINT AS failed
FROM reached AS r
JOIN longest AS l ON l.class = r.class AND l.of_node IS NOT DISTINCT FROM r.of_node
LEFT JOIN task AS t ON t.pid = l.pid
GROUP BY r.class, r.of_node
ORDER BY busy_s DESC, who, node

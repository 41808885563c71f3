-- Names of the threads and processes that the timeline shows.
--
-- Columns:
--   pid   INTEGER  Process of the track.
--   tid   INTEGER  Thread of the track.
--   name  VARCHAR  thread_name or process_name.
--   args  STRUCT   name: the thread or process.
WITH seen AS (
    SELECT pid FROM reclaim WHERE kind != 'vmstat_update'
    UNION SELECT pid FROM compaction
    UNION SELECT pid FROM event WHERE kind = 'alloc_extfrag' OR kind = 'alloc' AND pfn IS NULL
),
named AS (
    SELECT pid, coalesce(t.tgid, pid) AS tgid, t.comm
    FROM seen LEFT JOIN task AS t USING (pid)
    WHERE t.comm IS NOT NULL
)
SELECT tgid AS pid, pid AS tid, 'thread_name' AS name,
    {'name': comm} AS args
FROM named
UNION ALL
SELECT n.tgid, n.tgid, 'process_name', {'name': coalesce(t.comm, n.comm)}
FROM (SELECT tgid, min(comm) AS comm FROM named GROUP BY tgid) AS n
LEFT JOIN task AS t ON t.pid = n.tgid
ORDER BY ALL

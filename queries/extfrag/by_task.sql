-- Fallbacks by the task that ran, and what it asked for.
--
-- Who fragments memory: the names at the top with UNMOVABLE or RECLAIMABLE are the
-- ones to look at. In interrupt context the task is only the one interrupted.
--
-- Tier: A
--
-- Columns:
--   comm               VARCHAR  Name of the thread, or its pid where the name is unknown.
--   cgroup             VARCHAR  Its control group, where it is known.
--   alloc_migratetype  VARCHAR  Migratetype asked for.
--   in_interrupt       BOOLEAN  In hard or soft interrupt context.
--   processes          BIGINT   Processes with threads of that name; 0 where unknown.
--   below_pageblock    BIGINT   Fallbacks below pageblock order: they mix migratetypes.
--   nr                 BIGINT   All fallbacks.
SELECT
    coalesce(t.comm, f.pid::VARCHAR) AS comm,
    t.cgroup,
    f.alloc_migratetype,
    (f.flags & 6) <> 0 AS in_interrupt,
    count(DISTINCT t.tgid) AS processes,
    count(*) FILTER (f.below_pageblock) AS below_pageblock,
    count(*) AS nr
FROM extfrag AS f
LEFT JOIN task AS t USING (tape, pid)
GROUP BY ALL
ORDER BY below_pageblock DESC, nr DESC, comm, cgroup, alloc_migratetype, in_interrupt

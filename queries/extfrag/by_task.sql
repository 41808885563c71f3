-- Fallbacks by the running task and the requested migratetype.
--
-- The report shows which tasks fragment memory: read the top rows with UNMOVABLE or
-- RECLAIMABLE first. In interrupt context the task is the interrupted one: it did not request
-- the page.
--
-- Tier: A
--
-- Columns:
--   comm               VARCHAR  Thread name, or the pid if the name is unknown.
--   cgroup             VARCHAR  Control group, if known.
--   alloc_migratetype  VARCHAR  Requested migratetype.
--   in_interrupt       BOOLEAN  The fallback ran in hard or soft interrupt context.
--   processes          BIGINT   Processes with threads of that name; 0 if unknown.
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

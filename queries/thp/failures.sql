-- Huge pages that nobody got: failed requests of pageblock order, by cause and task.
--
-- Each request is judged at the moment of its failure, by the free memory that the page events show and the rules of the
-- tape's kernel. Causes:
--
--   cgroup   the limit of a memory cgroup: a counter of page faults (thp_fault_fallback_charge), without tasks
--   memory   no zone that the request may take had enough usable memory
--   block    memory was enough, but no block was free, and compaction made none: fragmentation
--   policy   no block was free on its nodes, and the request may not compact (without DIRECT_RECLAIM: see
--            /sys/kernel/mm/transparent_hugepage/defrag) or may not leave its node (THISNODE)
--   unknown  the tape lacks page events or readings of free memory, or their error is too large to judge
--
-- The first try of a page fault, on its own node, counts only if no second try follows. A request whose charge failed
-- got its page before, and counts in its cgroup only. Memory policies and cpusets of tasks are not on the tape. In interrupt
-- context the task is the interrupted one. Requests of the recorder are the rows with `recorder`.
--
-- Needs: event.alloc
-- Events: whole
-- Replay: a request that failed on the recording gets no block here, also where the model has one: `compare` counts these as served
-- Tier: A
--
-- Columns:
--   cause      VARCHAR  cgroup, memory, block, policy or unknown.
--   comm       VARCHAR  Thread, or its pid if the name is unknown; null for a counter.
--   recorder   BOOLEAN  The task is the recorder itself.
--   failed     BIGINT   Failed requests.
--   percent    DOUBLE   Of all rows, in percent.
--   first_at_s DOUBLE   First failure, seconds after the tape's first event.
--   last_at_s  DOUBLE   Last failure, seconds after the tape's first event.
--   gfp_flags  VARCHAR  Most frequent gfp flags.
WITH counter AS (
    SELECT sum(change)::BIGINT AS nr
    FROM (
        SELECT greatest(arg_max(value, snapshot) - arg_min(value, snapshot), 0) AS change
        FROM vmstat
        WHERE name = 'thp_fault_fallback_charge'
    )
),

found AS (
    SELECT
        h.cause,
        coalesce(t.comm, h.pid::VARCHAR) AS comm,
        h.by_recorder AS recorder,
        count(*) AS failed,
        min(h.ts) AS first_ts,
        max(h.ts) AS last_ts,
        mode(h.gfp_flags ORDER BY h.gfp_flags) AS gfp_flags
    FROM huge_failure AS h
    LEFT JOIN task AS t USING (tape, pid)
    GROUP BY ALL
    UNION ALL
    SELECT 'cgroup', NULL, false, nr, NULL, NULL, NULL FROM counter WHERE nr > 0
)

SELECT
    f.* REPLACE (if(f.gfp_flags IS NULL, NULL, gfp_names(f.gfp_flags)) AS gfp_flags),
    round(100 * f.failed / sum(f.failed) OVER (), 1)::DOUBLE AS percent,
    round((f.first_ts::BIGINT - m.start_ts::BIGINT) / 1e9, 3) AS first_at_s,
    round((f.last_ts::BIGINT - m.start_ts::BIGINT) / 1e9, 3) AS last_at_s
FROM found AS f
CROSS JOIN machine AS m
ORDER BY f.failed DESC, f.cause, f.comm, f.recorder

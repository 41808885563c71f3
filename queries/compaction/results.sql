-- Results of compaction, by who asked for it: outcome, time, pages moved and failed.
--
-- Read `who` first. Only for `direct` an allocation waited. `kcompactd` works after a wakeup for an order,
-- `proactive` is kcompactd for the node's fragmentation score, and `explicit` is a task that wrote to
-- /proc/sys/vm/compact_memory or /sys/devices/system/node/node*/compact: a cron job, a node agent, a set-up
-- script. `cma`, `contig` and `hotplug` are requests for a contiguous range, which migrate pages without a
-- run of compaction. The views compaction_run and contiguous_request separate them. Migrations for other
-- reasons (NUMA balancing, mbind, demotion) are no compaction.
--
-- A run is of one zone. `success` means that a block of the order is free, or that the score is low enough.
-- `complete`: the scanners met without that; for whole zones (order -1) this is the normal end.
-- `partial_skipped`: the same, but some pageblocks were skipped. `contended`: given up for a lock, a signal or
-- another task. Runs without a begin or end on the tape count without their time.
--
-- kcompactd of a replay is not a thread: its node names it.
--
-- Needs: compaction.begin
-- Tier: B
--
-- Parameters:
--   who  VARCHAR = all  Only runs of this one: direct, kcompactd, proactive, explicit, unknown, cma, contig or hotplug.
--
-- Columns:
--   who           VARCHAR  Origin of the runs.
--   comm          VARCHAR  Thread that ran, or its pid if the name is unknown.
--   page_order    INTEGER  Order wanted; -1 for whole zones, null for a range or if unknown.
--   mode          VARCHAR  async, sync_light or sync.
--   outcome       VARCHAR  Result; null if the end is not on the tape.
--   runs          BIGINT   Number of runs, or of requests for a range.
--   moved         BIGINT   Pages moved; null if not recorded.
--   failed        BIGINT   Pages that did not move; null if not recorded.
--   total_ms      DOUBLE   Time of these runs, in ms; of direct runs the wait of the allocation.
--   p50_ms        DOUBLE   Median, in ms.
--   max_ms        DOUBLE   The longest run, in ms.
--   tape_percent  DOUBLE   Their time within the tape's events, in percent of it; runs at the same time add up.
WITH chosen AS (
    SELECT CASE
        WHEN $who IN ('all', 'direct', 'kcompactd', 'proactive', 'explicit', 'unknown', 'cma', 'contig', 'hotplug') THEN $who
        ELSE error(
            'bad parameter: who ''' || $who
            || ''' is not all, direct, kcompactd, proactive, explicit, unknown, cma, contig or hotplug'
        )
    END AS who
),

run AS (
    SELECT tape, pid, node, who, page_order, mode, outcome, from_ts, until_ts, moved, failed FROM compaction_run
    UNION ALL
    SELECT tape, pid, NULL, "by", NULL, 'sync', outcome, from_ts, until_ts, moved, failed FROM contiguous_request
),

timed AS (
    SELECT
        r.*,
        if(r.pid = 0, 'kcompactd' || r.node, coalesce(t.comm, r.pid::VARCHAR)) AS comm,
        (r.until_ts::BIGINT - r.from_ts::BIGINT) / 1e6 AS ms,
        greatest(least(r.until_ts, m.end_ts)::BIGINT - r.from_ts::BIGINT, 0) / 1e6 AS inside_ms,
        (m.end_ts::BIGINT - m.start_ts::BIGINT) / 1e6 AS tape_ms
    FROM run AS r
    CROSS JOIN chosen AS c
    JOIN machine AS m ON m.tape = r.tape
    LEFT JOIN task AS t ON t.tape = r.tape AND t.pid = r.pid
    WHERE c.who IN ('all', r.who)
)

SELECT
    who,
    comm,
    page_order,
    mode,
    outcome,
    count(*) AS runs,
    sum(moved)::BIGINT AS moved,
    sum(failed)::BIGINT AS failed,
    round(sum(ms), 3) AS total_ms,
    round(quantile_cont(ms, 0.5), 3) AS p50_ms,
    round(max(ms), 3) AS max_ms,
    round(100 * sum(inside_ms) / nullif(any_value(tape_ms), 0), 2) AS tape_percent
FROM timed
GROUP BY who, comm, page_order, mode, outcome
ORDER BY who, sum(ms) DESC NULLS LAST, comm, page_order, mode, outcome

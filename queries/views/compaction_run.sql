-- Runs of compaction in a zone, one row each, with the one who asked for it.
--
-- A run lasts from mm_compaction_begin to mm_compaction_end of one thread. `who` is
--
--   direct     an allocation that found no block of its order (try_to_compact_pages)
--   kcompactd  kcompactd, after a wakeup for an order (kcompactd_do_work)
--   proactive  kcompactd, for the node's fragmentation score or vm.compaction_proactiveness
--   explicit   a task that wrote to /proc/sys/vm/compact_memory or /sys/devices/system/node/node*/compact
--   unknown    the tape does not show it
--
-- The order of mm_compaction_finished decides: it is -1 for whole zones (compact_node), and above 0 for a
-- request. Without that event, a run is direct if it continues mm_compaction_try_to_compact_pages of its
-- thread: no allocation and no direct reclaim of the thread lies between, each zone comes once, and both
-- are synchronous or neither is. An explicit run is synchronous, and kcompactd runs in its own thread.
-- Isolations and migrations outside of a run (alloc_contig_range, NUMA balancing) are no rows here: see
-- contiguous_request.
--
-- Rows: few
--
-- Columns:
--   tape        VARCHAR   Name of the tape.
--   pid         INTEGER   Thread.
--   from_ts     UBIGINT   Begin, trace clock in ns; null if it is not on the tape.
--   until_ts    UBIGINT   End; null if it is not on the tape.
--   who         VARCHAR   direct, kcompactd, proactive, explicit or unknown.
--   page_order  INTEGER   Order wanted; -1 for a whole-zone run, null if unknown.
--   mode        VARCHAR   async, sync_light or sync (enum migrate_mode); null if unknown.
--   outcome     VARCHAR   Result (enum compact_result from 4.8 on): success, complete, partial_skipped,
--                         contended or another name; null if it is not on the tape.
--   node        INTEGER   NUMA node; null if unknown.
--   zone        VARCHAR   Zone; null if unknown.
--   moved       BIGINT    Pages moved; null if not recorded.
--   failed      BIGINT    Pages that did not move; null if not recorded.
WITH kcompactd AS (
    SELECT tape, pid FROM compaction WHERE kind IN ('kcompactd_wake', 'kcompactd_sleep')
    UNION
    SELECT tape, pid FROM task WHERE kthread AND comm LIKE 'kcompactd%'
),

-- The daemons of a replay have pid 0, on every node. A run may begin when the one before ends.
known AS (
    SELECT *, if(pid = 0, node, NULL) AS daemon
    FROM (
        SELECT *, row_number() OVER () AS place
        FROM compaction
        WHERE kind IN (
            'begin', 'end', 'finished', 'migratepages', 'try_to_compact_pages', 'kcompactd_wake', 'kcompactd_sleep'
        )
    )
),

step AS (
    SELECT
        *,
        last_value(if(kind IN ('begin', 'end'), kind, NULL) IGNORE NULLS) OVER before AS edge,
        last_value(if(kind IN ('kcompactd_wake', 'kcompactd_sleep'), kind, NULL) IGNORE NULLS) OVER here AS work,
        last_value(if(kind = 'kcompactd_wake', page_order, NULL) IGNORE NULLS) OVER here AS woken_order,
        last_value(if(kind = 'try_to_compact_pages', ts, NULL) IGNORE NULLS) OVER here AS try_ts,
        last_value(if(kind = 'try_to_compact_pages', page_order, NULL) IGNORE NULLS) OVER here AS try_order,
        last_value(if(kind = 'try_to_compact_pages', coalesce(priority, -1), NULL) IGNORE NULLS) OVER here AS try_priority
    FROM known
    WINDOW
        here AS (PARTITION BY tape, pid, daemon ORDER BY ts, "at", place ROWS UNBOUNDED PRECEDING),
        before AS (PARTITION BY tape, pid, daemon ORDER BY ts, "at", place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),

-- Events of a thread after the end of its run belong to no run. A begin, or an end without one, begins the next.
inside AS (
    SELECT *, kind = 'begin' OR (kind = 'end' AND edge IS DISTINCT FROM 'begin') AS begins
    FROM step
    WHERE kind IN ('begin', 'end') OR edge = 'begin'
),

-- A count with FILTER over a window takes DuckDB seven times as long.
numbered AS (
    SELECT *, count(if(begins, 1, NULL)) OVER (PARTITION BY tape, pid, daemon ORDER BY ts, "at", place ROWS UNBOUNDED PRECEDING) AS number
    FROM inside
),

run AS (
    SELECT
        tape,
        pid,
        number,
        any_value(ts) FILTER (kind = 'begin') AS from_ts,
        any_value(ts) FILTER (kind = 'end') AS until_ts,
        coalesce(any_value(ts) FILTER (kind = 'begin'), any_value(ts) FILTER (kind = 'end')) AS ts,
        bool_or(sync) FILTER (kind IN ('begin', 'end')) AS sync,
        any_value(status) FILTER (kind = 'end') AS status,
        any_value(start_pfn) FILTER (kind IN ('begin', 'end')) AS start_pfn,
        arg_min(page_order, ts) FILTER (kind = 'finished') AS finished_order,
        any_value(node) FILTER (kind IN ('begin', 'finished')) AS node,
        any_value(zone) FILTER (kind IN ('begin', 'finished')) AS zone,
        any_value(work) FILTER (begins) AS work,
        any_value(woken_order) FILTER (begins) AS woken_order,
        any_value(try_ts) FILTER (begins) AS try_ts,
        any_value(try_order) FILTER (begins) AS try_order,
        any_value(try_priority) FILTER (begins) AS try_priority,
        sum(nr_migrated) FILTER (kind = 'migratepages')::BIGINT AS moved,
        sum(nr_failed) FILTER (kind = 'migratepages')::BIGINT AS failed
    FROM numbered
    GROUP BY tape, pid, daemon, number
),

-- Only a run without mm_compaction_finished needs the events around it.
doubtful AS (
    SELECT tape, pid FROM run WHERE finished_order IS NULL AND try_ts IS NOT NULL
),

apart AS (
    SELECT tape, pid, ts FROM event WHERE kind = 'alloc' AND (flags & 6) = 0 AND (tape, pid) IN (FROM doubtful)
    UNION ALL
    SELECT tape, pid, ts FROM reclaim WHERE kind = 'direct_reclaim_begin' AND (tape, pid) IN (FROM doubtful)
),

judged AS (
    SELECT
        r.*,
        k.pid IS NOT NULL AS is_kcompactd,
        r.try_ts IS NOT NULL
        AND (a.ts IS NULL OR a.ts <= r.try_ts)
        AND coalesce((r.try_priority < 2) = r.sync OR r.try_priority < 0, true)
        AND count(*) OVER (
            PARTITION BY r.tape, r.pid, r.try_ts, r.start_pfn, r.node, r.zone ORDER BY r.number
        ) = 1 AS continues,
        coalesce(
            list_contains(m.recorded, 'compaction:mm_compaction_try_to_compact_pages'),
            r.tape IN (SELECT DISTINCT tape FROM compaction WHERE kind = 'try_to_compact_pages')
        ) AS tries_recorded,
        coalesce(
            list_contains(m.recorded, 'compaction:mm_compaction_migratepages'),
            r.tape IN (SELECT DISTINCT tape FROM compaction WHERE kind = 'migratepages')
        ) AS moves_recorded
    FROM run AS r
    JOIN machine AS m USING (tape)
    LEFT JOIN kcompactd AS k ON k.tape = r.tape AND k.pid = r.pid
    -- The last one before the run: that of the same instant follows it.
    ASOF LEFT JOIN apart AS a ON a.tape = r.tape AND a.pid = r.pid AND a.ts < r.ts
),

named AS (
    SELECT
        *,
        CASE
            WHEN is_kcompactd AND finished_order < 0 THEN 'proactive'
            WHEN is_kcompactd AND (finished_order >= 0 OR work IS DISTINCT FROM 'kcompactd_sleep') THEN 'kcompactd'
            WHEN is_kcompactd THEN 'proactive'
            WHEN finished_order < 0 THEN 'explicit'
            WHEN finished_order >= 0 OR continues OR NOT sync THEN 'direct'
            WHEN tries_recorded AND from_ts IS NOT NULL THEN 'explicit'
            ELSE 'unknown'
        END AS who
    FROM judged
)

SELECT
    n.tape,
    n.pid,
    n.from_ts,
    n.until_ts,
    n.who,
    CASE
        WHEN n.finished_order IS NOT NULL THEN n.finished_order
        WHEN n.who = 'direct' AND n.continues THEN n.try_order
        WHEN n.who = 'kcompactd' AND n.work = 'kcompactd_wake' THEN n.woken_order
        WHEN n.who IN ('proactive', 'explicit') THEN -1
    END::INTEGER AS page_order,
    -- compact_zone_order, kcompactd_do_work, compact_node
    CASE
        WHEN n.who IN ('kcompactd', 'proactive') THEN 'sync_light'
        WHEN n.who = 'explicit' THEN 'sync'
        WHEN n.who = 'direct' THEN if(n.sync, 'sync_light', 'async')
    END AS mode,
    CASE
        WHEN n.status BETWEEN 0 AND 8 THEN [
            'not_suitable_zone', 'skipped', 'deferred', 'no_suitable_page', 'continue', 'complete',
            'partial_skipped', 'contended', 'success'
        ][n.status::INTEGER + 1]
        ELSE n.status::VARCHAR
    END AS outcome,
    coalesce(n.node, z.node)::INTEGER AS node,
    coalesce(n.zone::VARCHAR, z.zone::VARCHAR) AS zone,
    coalesce(n.moved, if(n.moves_recorded, 0, NULL))::BIGINT AS moved,
    coalesce(n.failed, if(n.moves_recorded, 0, NULL))::BIGINT AS failed
FROM named AS n
LEFT JOIN zone AS z
    ON z.tape = n.tape
    AND z.snapshot = 0
    AND z.spanned > 0
    AND z.start_pfn = n.start_pfn

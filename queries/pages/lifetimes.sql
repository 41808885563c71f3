-- Lifetimes of pages, by migratetype, order and task.
--
-- A page counts from its allocation to its free, both on the tape; a split huge page to its first free.
-- Pages in use since before the tape are not counted. Many pages outlive the tape: their
-- lifetimes are unknown. Read `outcome` first. The quantiles of `p*_ms` are of freed pages only, and
-- too short if many pages are still in use. `least_p50_ms` counts each page still in use with its age at the
-- end: the true median of all pages is that long, or longer.
--
-- `--by task` has one row for each task, too. In interrupt context the task is the interrupted one. The rows
-- with most pages come first.
--
-- Needs: event.alloc, event.free
--
-- Events: whole
--
-- Tier: A
--
-- Parameters:
--   by   VARCHAR = type  type, or task for a row per task as well.
--   top  BIGINT 0..1000000000 = 25  Maximum number of rows.
--
-- Columns:
--   migratetype    VARCHAR   Requested migratetype.
--   page_order     UTINYINT  Order.
--   comm           VARCHAR   Thread that allocated, or its pid; [all] for all tasks.
--   allocs         BIGINT    Allocations.
--   freed          BIGINT    Of these, freed on the tape.
--   in_use         BIGINT    Of these, in use at the end of the tape.
--   unseen         BIGINT    Of these, allocated again without a free on the tape: their lifetimes are unknown.
--   in_use_percent DOUBLE    in_use of allocs, in percent.
--   p50_ms         DOUBLE    Median lifetime of the freed ones, in ms.
--   p90_ms         DOUBLE    90th percentile, in ms.
--   p99_ms         DOUBLE    99th percentile, in ms.
--   max_ms         DOUBLE    Longest lifetime, in ms.
--   least_p50_ms   DOUBLE    Lower bound of the median lifetime of all, in ms.
--   outcome        VARCHAR   The share that the quantiles do not show, in words.
WITH chosen AS (
    SELECT CASE
        WHEN $by IN ('type', 'task') THEN $by
        ELSE error('bad parameter: by ''' || $by || ''' is not type or task')
    END AS way
),

life AS (
    SELECT
        tape,
        ts,
        pid,
        kind,
        migratetype,
        page_order,
        lead(ts) OVER of_page AS next_ts,
        lead(kind) OVER of_page AS next_kind
    FROM event
    WHERE kind IN ('alloc', 'free') AND pfn IS NOT NULL
    WINDOW of_page AS (PARTITION BY tape, pfn ORDER BY ts)
),

aged AS (
    SELECT
        l.tape,
        l.migratetype,
        l.page_order,
        coalesce(t.comm, l.pid::VARCHAR) AS comm,
        l.next_kind = 'free' AS freed,
        l.next_kind IS NULL AS in_use,
        CASE WHEN l.next_kind = 'free' THEN (l.next_ts - l.ts) / 1e6 END AS ms,
        CASE
            WHEN l.next_kind = 'free' THEN (l.next_ts - l.ts) / 1e6
            WHEN l.next_kind IS NULL THEN greatest(m.end_ts::BIGINT - l.ts::BIGINT, 0) / 1e6
        END AS least_ms
    FROM life AS l
    JOIN machine AS m USING (tape)
    LEFT JOIN task AS t USING (tape, pid)
    WHERE l.kind = 'alloc'
),

counted AS (
    SELECT
        migratetype,
        page_order,
        if(grouping(comm) = 1, '[all]', comm) AS comm,
        grouping(comm) = 1 AS every,
        count(*) AS allocs,
        count(*) FILTER (freed) AS freed,
        count(*) FILTER (in_use) AS in_use,
        quantile_cont(ms, [0.5, 0.9, 0.99]) AS quantiles,
        max(ms) AS max_ms,
        quantile_cont(least_ms, 0.5) AS least_p50_ms
    FROM aged
    GROUP BY GROUPING SETS ((migratetype, page_order), (migratetype, page_order, comm))
)

SELECT
    migratetype::VARCHAR AS migratetype,
    page_order,
    comm,
    allocs,
    freed,
    in_use,
    allocs - freed - in_use AS unseen,
    round(100 * in_use / allocs, 1) AS in_use_percent,
    round(quantiles[1], 3) AS p50_ms,
    round(quantiles[2], 3) AS p90_ms,
    round(quantiles[3], 3) AS p99_ms,
    round(max_ms, 3) AS max_ms,
    round(least_p50_ms, 3) AS least_p50_ms,
    CASE
        WHEN freed = 0 THEN 'none freed on the tape'
        WHEN in_use = 0 THEN 'none in use at the end'
        ELSE printf('%.1f %% in use at the end: the median of all is at least %.1f ms', 100 * in_use / allocs, least_p50_ms)
    END AS outcome
FROM counted
WHERE every OR (SELECT way FROM chosen) = 'task'
ORDER BY allocs << least(page_order::INTEGER, 20) DESC, every DESC, migratetype, page_order, comm
LIMIT $top::BIGINT

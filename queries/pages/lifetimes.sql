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
-- Events: whole
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

-- 16 bytes a use, because there may be 10^8: what a quantile needs of all would not fit into memory.
aged AS MATERIALIZED (
    SELECT
        u.migratetype::ENUM('UNMOVABLE', 'MOVABLE', 'RECLAIMABLE', 'HIGHATOMIC', 'CMA', 'ISOLATE', 'RESERVE') AS migratetype,
        u.page_order,
        if($by = 'task', u.pid, 0) AS pid,
        u.freed,
        if(u.freed IS NULL, greatest(m.end_ts::BIGINT - u.ts::BIGINT, 0), (u.until_ts - u.ts)::BIGINT) AS ns
    FROM page_use AS u
    JOIN machine AS m USING (tape)
    WHERE u.ts IS NOT NULL
),

-- Uses by size class of their lifetime, which is 0.4 % wide. The lifetime of an unseen use is none.
class AS MATERIALIZED (
    SELECT
        migratetype,
        page_order,
        pid,
        if(freed IS NOT false, (256 * ln(ns + 1))::INTEGER, -1) AS size,
        count(*) AS allocs,
        count(*) FILTER (freed) AS freed,
        count(*) FILTER (freed IS NULL) AS in_use,
        max(ns) FILTER (freed) AS most
    FROM aged
    GROUP BY ALL
),

whose AS MATERIALIZED (
    SELECT DISTINCT c.pid, coalesce(t.comm, c.pid::VARCHAR) AS comm, false AS every
    FROM class AS c
    LEFT JOIN task AS t USING (pid)
    WHERE $by = 'task'
    UNION ALL
    SELECT DISTINCT pid, '[all]', true FROM class
),

summed AS MATERIALIZED (
    SELECT
        c.migratetype,
        c.page_order,
        w.comm,
        w.every,
        c.size,
        sum(c.allocs)::BIGINT AS allocs,
        sum(c.freed)::BIGINT AS freed,
        sum(c.in_use)::BIGINT AS in_use,
        max(c.most) AS most
    FROM class AS c
    JOIN whose AS w USING (pid)
    GROUP BY ALL
),

counted AS MATERIALIZED (
    SELECT
        migratetype,
        page_order,
        comm,
        every,
        sum(allocs)::BIGINT AS allocs,
        sum(freed)::BIGINT AS freed,
        sum(in_use)::BIGINT AS in_use,
        max(most) / 1e6 AS max_ms
    FROM summed
    GROUP BY ALL
),

-- Each quantile lies between two uses: their ranks among the freed ones, or among all with a lifetime.
rank AS (
    SELECT *, unnest(list_distinct([floor(rn), ceil(rn)]))::BIGINT AS nr
    FROM (
        SELECT c.migratetype, c.page_order, c.comm, c.every, q.*, (c.freed + if(q.of_freed, 0, c.in_use) - 1) * q.share AS rn
        FROM counted AS c
        CROSS JOIN (VALUES ('p50', 0.5, true), ('p90', 0.9, true), ('p99', 0.99, true), ('least', 0.5, false)) AS q (name, share, of_freed)
    )
    WHERE rn >= 0
),

running AS (
    SELECT
        migratetype,
        page_order,
        comm,
        every,
        size,
        of_freed,
        freed + if(of_freed, 0, in_use) AS here,
        sum(freed + if(of_freed, 0, in_use)) OVER (
            PARTITION BY migratetype, page_order, comm, every, of_freed ORDER BY size
        ) AS until
    FROM summed
    CROSS JOIN (VALUES (true), (false)) AS s (of_freed)
    WHERE size >= 0
),

sought AS MATERIALIZED (
    SELECT r.*, n.size, (r.nr - (n.until - n.here))::BIGINT AS place
    FROM rank AS r
    JOIN running AS n
        ON n.migratetype IS NOT DISTINCT FROM r.migratetype
        AND n.page_order IS NOT DISTINCT FROM r.page_order
        AND n.comm = r.comm
        AND n.every = r.every
        AND n.of_freed = r.of_freed
        AND r.nr >= n.until - n.here
        AND r.nr < n.until
),

-- Few rows are of interest: a join would hold all.
chosen_class AS (
    SELECT list(i IN (SELECT size FROM sought) ORDER BY i) AS classes FROM range(12000) AS r (i)
),

-- The lifetimes in the classes of these ranks, in order.
found AS (
    SELECT
        s.migratetype,
        s.page_order,
        s.comm,
        s.every,
        s.name,
        any_value(s.rn) AS rn,
        s.nr,
        list_sort(list(a.ns))[any_value(s.place) + 1] / 1e6 AS ms
    FROM (
        SELECT a.*, w.comm, w.every
        FROM (
            SELECT *, (256 * ln(ns + 1))::INTEGER AS size
            FROM aged
            WHERE freed IS NOT false AND (SELECT classes FROM chosen_class)[(256 * ln(ns + 1))::INTEGER + 1]
        ) AS a
        JOIN whose AS w USING (pid)
    ) AS a
    JOIN sought AS s
        ON s.size = a.size
        AND s.comm = a.comm
        AND s.every = a.every
        AND s.migratetype IS NOT DISTINCT FROM a.migratetype
        AND s.page_order IS NOT DISTINCT FROM a.page_order
        AND (a.freed OR NOT s.of_freed)
    GROUP BY ALL
),

quantile AS (
    SELECT
        migratetype,
        page_order,
        comm,
        every,
        name,
        min(ms) + (max(ms) - min(ms)) * (any_value(rn) - floor(any_value(rn))) AS ms
    FROM found
    GROUP BY ALL
),

answered AS (
    SELECT
        c.*,
        max(q.ms) FILTER (q.name = 'p50') AS p50_ms,
        max(q.ms) FILTER (q.name = 'p90') AS p90_ms,
        max(q.ms) FILTER (q.name = 'p99') AS p99_ms,
        max(q.ms) FILTER (q.name = 'least') AS least_p50_ms
    FROM counted AS c
    LEFT JOIN quantile AS q
        ON q.migratetype IS NOT DISTINCT FROM c.migratetype
        AND q.page_order IS NOT DISTINCT FROM c.page_order
        AND q.comm = c.comm
        AND q.every = c.every
    GROUP BY ALL
)

SELECT
    * REPLACE (
        round(p50_ms, 3) AS p50_ms,
        round(p90_ms, 3) AS p90_ms,
        round(p99_ms, 3) AS p99_ms,
        round(max_ms, 3) AS max_ms,
        round(least_p50_ms, 3) AS least_p50_ms
    ),
    allocs - freed - in_use AS unseen,
    round(100 * in_use / allocs, 1) AS in_use_percent,
    CASE
        WHEN freed = 0 THEN 'none freed on the tape'
        WHEN in_use = 0 THEN 'none in use at the end'
        ELSE printf('%.1f %% in use at the end: the median of all is at least %.1f ms', 100 * in_use / allocs, least_p50_ms)
    END AS outcome
FROM answered
WHERE (SELECT way FROM chosen) IS NOT NULL
ORDER BY allocs << least(page_order::INTEGER, 20) DESC, every DESC, migratetype::VARCHAR, page_order, comm
LIMIT $top::BIGINT

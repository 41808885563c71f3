-- Failed allocations, by kind: which requests failed, and what each lacked at that moment.
--
-- A request is `optional` if it has NOWARN or NORETRY: its caller has another way, and the kernel logs
-- nothing. It is `atomic` if it may not wait for reclaim. The view failed_alloc says what it lacked. Requests of the recorder
-- are kinds of their own. The largest kind comes first.
--
-- Columns:
--   optional    BOOLEAN   The caller has another way.
--   atomic      BOOLEAN   The request may not wait for reclaim.
--   page_order  INTEGER   Requested order.
--   nr          BIGINT    Failed allocations of this kind.
--   memory      BIGINT    Of these, requests that found no zone with enough usable memory.
--   block       BIGINT    Of these, requests that found memory, but no block of their order.
--   allocs      BIGINT    All allocations of the tape, failed or not, without the recorder's.
--   task        VARCHAR   Task with the most of them.
--   recorder    BOOLEAN   The recorder's own requests.
WITH failed AS MATERIALIZED (
    SELECT
        coalesce(t.comm, f.pid::VARCHAR) AS comm,
        f.page_order,
        f.lacks,
        f.by_recorder,
        gfp_has(f.gfp_flags, 'NOWARN') OR gfp_has(f.gfp_flags, 'NORETRY') AS optional,
        NOT gfp_has(f.gfp_flags, 'DIRECT_RECLAIM') AS atomic
    FROM failed_alloc AS f
    LEFT JOIN task AS t USING (tape, pid)
)

SELECT
    optional,
    atomic,
    page_order,
    count(*) AS nr,
    count(*) FILTER (lacks = 'memory') AS memory,
    count(*) FILTER (lacks = 'block') AS block,
    (
        SELECT coalesce(sum(events), 0)::BIGINT
        FROM event_group
        WHERE kind = 'alloc' AND (tape, pid) NOT IN (SELECT (tape, pid) FROM recorder_task)
    ) AS allocs,
    mode(comm ORDER BY comm) AS task,
    by_recorder AS recorder
FROM failed
GROUP BY optional, atomic, page_order, by_recorder
ORDER BY nr DESC, optional, page_order, by_recorder

-- Failed allocations, by kind: which requests failed, and what memory was free then.
--
-- A request is `optional` if it has NOWARN or NORETRY: its caller has another way, and the kernel logs
-- nothing. It is `atomic` if it may not wait for reclaim. `near_s` is the distance to the nearest
-- moment with known free memory, a snapshot or a sample. The largest kind comes first.
--
-- Columns:
--   optional    BOOLEAN   The caller has another way.
--   atomic      BOOLEAN   The request may not wait for reclaim.
--   page_order  INTEGER   Requested order.
--   nr          BIGINT    Failed allocations of this kind.
--   allocs      BIGINT    All allocations of the tape, failed or not.
--   task        VARCHAR   Task with the most of them.
--   free        BIGINT    Free pages of the machine at the nearest known moment; null if unknown.
--   usable      BIGINT    Of these, pages in blocks of at least that order.
--   near_s      DOUBLE    Distance to that moment, in seconds.
WITH failed AS MATERIALIZED (
    SELECT
        e.tape,
        e.ts,
        coalesce(t.comm, e.pid::VARCHAR) AS comm,
        e.page_order,
        list_has_any(string_split(gfp_names(coalesce(e.gfp_flags, 0)), '|'), ['NOWARN', 'NORETRY']) AS optional,
        NOT list_contains(string_split(gfp_names(coalesce(e.gfp_flags, 0)), '|'), 'DIRECT_RECLAIM') AS atomic
    FROM event AS e
    LEFT JOIN task AS t USING (tape, pid)
    WHERE e.kind = 'alloc' AND e.pfn IS NULL
),

kind AS (
    SELECT
        tape,
        optional,
        atomic,
        page_order,
        count(*) AS nr,
        mode(comm) AS task,
        quantile_disc(ts, 0.5) AS median_ts
    FROM failed
    GROUP BY ALL
),

moment AS (
    SELECT tape, ts, page_order, sum(free_pages)::BIGINT AS free, sum(usable_pages)::BIGINT AS usable
    FROM frag_index
    WHERE ts > 0
    GROUP BY tape, ts, page_order
),

near AS (
    SELECT
        k.optional,
        k.atomic,
        k.page_order,
        arg_min(m.free, abs(m.ts::BIGINT - k.median_ts::BIGINT)) AS free,
        arg_min(m.usable, abs(m.ts::BIGINT - k.median_ts::BIGINT)) AS usable,
        min(abs(m.ts::BIGINT - k.median_ts::BIGINT)) / 1e9 AS near_s
    FROM kind AS k
    JOIN moment AS m ON m.tape = k.tape AND m.page_order = k.page_order
    GROUP BY ALL
)

SELECT
    k.optional,
    k.atomic,
    k.page_order::INTEGER AS page_order,
    k.nr,
    (SELECT count(*) FROM event WHERE kind = 'alloc') AS allocs,
    k.task,
    n.free,
    n.usable,
    n.near_s
FROM kind AS k
LEFT JOIN near AS n USING (optional, atomic, page_order)
ORDER BY k.nr DESC, k.optional, k.page_order

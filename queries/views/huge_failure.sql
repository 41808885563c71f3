-- Failed requests of pageblock order, by cause, one row each: huge pages that nobody got.
--
-- A page fault first asks its own node only (THISNODE and NORETRY), then all nodes; the failure of a first try that a second
-- one follows does not count. Each failure is judged at its own moment (view failed_alloc):
--
--   memory   no zone that the request may take had enough usable memory
--   block    memory was enough, no block was free, and reclaim and compaction made none
--   policy   no block was free on its nodes, and the request may not make or take one elsewhere: without
--            DIRECT_RECLAIM it may not compact (transparent_hugepage/defrag), with THISNODE it may not leave its node
--   unknown  the tape does not have what a judgement needs, or the error of the count of free memory is too large
--
-- Columns:
--   tape         VARCHAR   Name of the tape.
--   ts           UBIGINT   Trace clock, ns.
--   pid          INTEGER   Thread.
--   cause        VARCHAR   memory, block, policy or unknown.
--   by_recorder  BOOLEAN   The recorder's own request.
--   gfp_flags    UINTEGER  Canonical gfp bits.
WITH lost AS (
    SELECT f.*
    FROM failed_alloc AS f
    JOIN machine AS m ON m.tape = f.tape AND m.pageblock_order = f.page_order
),

asked AS (
    SELECT
        tape,
        ts,
        pid,
        pfn IS NULL AS fails,
        lead(page_order::INTEGER) OVER thread AS next_order,
        lead(gfp_flags) OVER thread AS next_flags
    FROM event
    WHERE kind = 'alloc' AND (tape, pid) IN (SELECT (tape, pid) FROM lost WHERE gfp_has(gfp_flags, 'THISNODE'))
    WINDOW thread AS (PARTITION BY tape, pid ORDER BY ts)
),

-- Events of one thread may have equal times: one row each.
second AS (
    SELECT tape, ts, pid
    FROM asked AS a
    JOIN machine AS m USING (tape)
    WHERE a.fails AND a.next_order = m.pageblock_order AND NOT gfp_has(a.next_flags, 'THISNODE')
    GROUP BY ALL
)

SELECT
    l.tape,
    l.ts,
    l.pid,
    CASE
        WHEN l.lacks = 'block' AND NOT gfp_has(l.gfp_flags, 'DIRECT_RECLAIM') THEN 'policy'
        WHEN l.lacks IS NOT NULL AND l.elsewhere THEN 'policy'
        ELSE coalesce(l.lacks, 'unknown')
    END AS cause,
    l.by_recorder,
    l.gfp_flags
FROM lost AS l
WHERE NOT (
    gfp_has(l.gfp_flags, 'THISNODE')
    AND gfp_has(l.gfp_flags, 'NORETRY')
    AND (l.tape, l.ts, l.pid) IN (SELECT (tape, ts, pid) FROM second)
)

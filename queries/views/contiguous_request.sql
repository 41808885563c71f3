-- Requests for contiguous memory that empty a range of pages by migration, one row each.
--
-- `by` is cma (cma_alloc: a driver's DMA buffer, or a huge page of hugetlb_cma), contig (alloc_contig_range
-- by others: gigantic huge pages, virtio-mem) or hotplug (memory is taken offline). A CMA request lasts from
-- cma_alloc_start to cma_alloc_finish, and may try several ranges. 5.10 has no start: its request begins
-- with its first migration. Every other row is one attempt, from its first migration to the check of the
-- range (test_pages_isolated); a range with a page that cannot move is given up without an event.
--
-- Columns:
--   tape      VARCHAR  Name of the tape.
--   pid       INTEGER  Thread that asked.
--   by        VARCHAR  cma, contig or hotplug.
--   from_ts   UBIGINT  Begin, trace clock in ns; null if unknown.
--   until_ts  UBIGINT  End; null if it is not on the tape.
--   outcome   VARCHAR  success or failed; null if unknown.
--   pfn       UBIGINT  First pfn that it got, or of the range that it checked; null if none.
--   nr_pages  BIGINT   Pages wanted.
--   retries   BIGINT   Ranges of a CMA area that could not be emptied.
--   moved     BIGINT   Pages moved away; null if migrations are not recorded.
--   failed    BIGINT   Pages that did not move; null if migrations are not recorded.
WITH step AS (
    SELECT *
    FROM compaction
    WHERE kind IN ('cma_alloc_start', 'cma_alloc_finish', 'cma_alloc_busy_retry', 'test_pages_isolated')
       OR (kind IN ('migrate_pages_start', 'migrate_pages') AND reason IN (2, 6)) -- MR_MEMORY_HOTPLUG, MR_CONTIG_RANGE
),

-- The attempt of a CMA request is followed by its retry or its end.
followed AS (
    SELECT
        * EXCLUDE (next_kind),
        kind = 'cma_alloc_finish'
        OR (kind = 'test_pages_isolated' AND next_kind NOT IN ('cma_alloc_busy_retry', 'cma_alloc_finish')) AS ends
    FROM (
        SELECT
            *,
            coalesce(
                first_value(if(kind NOT LIKE 'migrate%', kind, NULL) IGNORE NULLS) OVER (
                    PARTITION BY tape, pid ORDER BY ts, "at" ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
                ),
                'none'
            ) AS next_kind
        FROM step
    )
),

numbered AS (
    SELECT
        *,
        coalesce(count(*) FILTER (ends OR kind = 'cma_alloc_start') OVER (
            PARTITION BY tape, pid ORDER BY ts, "at" ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), 0)
        + (kind = 'cma_alloc_start')::INTEGER AS number
    FROM followed
),

-- A start has a number of its own: its request follows it.
request AS (
    SELECT
        tape,
        pid,
        bool_or(kind LIKE 'cma%') AS is_cma,
        bool_or(reason = 2) AS is_hotplug,
        count(*) AS steps,
        min(ts) AS from_ts,
        any_value(ts) FILTER (ends) AS until_ts,
        any_value(allocated) FILTER (kind = 'cma_alloc_finish') AS allocated,
        any_value(errorno) FILTER (kind = 'cma_alloc_finish') AS errorno,
        any_value(start_pfn) FILTER (kind = 'cma_alloc_finish') AS cma_pfn,
        any_value(nr_pages) AS nr_pages,
        arg_max(start_pfn, ts) FILTER (kind = 'test_pages_isolated') AS checked_pfn,
        arg_max(end_pfn, ts) FILTER (kind = 'test_pages_isolated') AS checked_end,
        arg_max(fin_pfn, ts) FILTER (kind = 'test_pages_isolated') AS fin_pfn,
        count(*) FILTER (kind = 'cma_alloc_busy_retry') AS retries,
        sum(nr_migrated) FILTER (kind = 'migrate_pages') AS moved,
        sum(nr_failed) FILTER (kind = 'migrate_pages') AS failed
    FROM numbered
    GROUP BY tape, pid, number
    HAVING is_cma OR until_ts IS NOT NULL
)

SELECT
    r.tape,
    r.pid,
    CASE WHEN r.is_cma THEN 'cma' WHEN r.is_hotplug THEN 'hotplug' ELSE 'contig' END AS "by",
    if(r.steps > 1 OR r.until_ts IS NULL, r.from_ts, NULL) AS from_ts,
    r.until_ts,
    CASE
        WHEN r.until_ts IS NULL THEN NULL
        WHEN r.is_cma AND coalesce(r.allocated, r.errorno = 0) THEN 'success'
        WHEN NOT r.is_cma AND r.fin_pfn >= r.checked_end THEN 'success'
        ELSE 'failed'
    END AS outcome,
    if(r.is_cma, if(r.allocated, r.cma_pfn, NULL), r.checked_pfn) AS pfn,
    if(r.is_cma, r.nr_pages, r.checked_end - r.checked_pfn)::BIGINT AS nr_pages,
    r.retries,
    coalesce(r.moved, if(m.migrations, 0, NULL))::BIGINT AS moved,
    coalesce(r.failed, if(m.migrations, 0, NULL))::BIGINT AS failed
FROM request AS r
JOIN (
    SELECT
        tape,
        coalesce(
            list_contains(recorded, 'migrate:mm_migrate_pages'),
            tape IN (SELECT DISTINCT tape FROM compaction WHERE kind = 'migrate_pages')
        ) AS migrations
    FROM machine
) AS m ON m.tape = r.tape

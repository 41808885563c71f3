-- Completeness of a tape: lost events, frees of unknown pages, changed settings.
--
-- An orphan is a free of a page whose allocation is not on the tape. Compaction targets
-- have no allocation event: an orphan in a pageblock whose free pages compaction had
-- isolated before is a `compact_target`. Among the other orphans, pages that the tape sees for
-- the first time are `preexisting`; pages that it had seen freed before were allocated
-- in bulk (`without_event`). Orphans reduce the accuracy of a replay: a warning appears if
-- they exceed 5 % of all frees.
--
-- Events: whole
-- Tier: -
--
-- Columns:
--   what     VARCHAR  Counted item.
--   nr       BIGINT   Count.
--   share    DOUBLE   Share of all frees, or of all allocations, 0 to 1.
--   warning  VARCHAR  Consequence for other reports, if any.
WITH unknown AS MATERIALIZED (
    SELECT until_ts AS ts, pfn, freed_before FROM page_use WHERE ts IS NULL
),

-- The free of a part belongs to the allocation of the whole block, found by its first page. The
-- first page is a column, because DuckDB hash-joins columns but joins expressions row by row.
whole AS (
    SELECT DISTINCT pfn, page_order FROM event WHERE kind = 'alloc' AND page_order > 0
),

head AS MATERIALIZED (
    SELECT u.pfn, o.page_order::UTINYINT AS page_order, u.pfn >> o.page_order << o.page_order AS head
    FROM (SELECT DISTINCT pfn FROM unknown) AS u
    CROSS JOIN (SELECT unnest(range(1, coalesce(nr_orders, 11)))::INTEGER AS page_order FROM machine) AS o
),

part AS (
    SELECT DISTINCT h.pfn
    FROM head AS h
    SEMI JOIN whole AS w ON w.page_order = h.page_order AND w.pfn = h.head
),

candidate AS (
    SELECT u.ts, u.pfn, u.freed_before
    FROM unknown AS u
    ANTI JOIN part AS p ON p.pfn = u.pfn
),

isolated AS (
    SELECT start_pfn >> (SELECT pageblock_order FROM machine) AS block, min(ts) AS ts
    FROM compaction
    WHERE kind = 'isolate_freepages' AND nr_taken > 0
    GROUP BY block
),

orphan AS (
    SELECT
        CASE
            WHEN c.ts > i.ts THEN 'compact_target'
            WHEN c.freed_before THEN 'without_event'
            ELSE 'preexisting'
        END AS class,
        count(*) AS nr
    FROM candidate AS c
    LEFT JOIN isolated AS i ON i.block = c.pfn >> (SELECT pageblock_order FROM machine)
    GROUP BY class
),

event_total AS (
    SELECT
        count(*) FILTER (kind = 'free') AS frees,
        count(*) FILTER (kind = 'alloc') AS allocs,
        count(*) FILTER (kind = 'alloc' AND pfn IS NULL) AS failed
    FROM event
)

SELECT what, nr, round(share, 6) AS share, warning
FROM (
    SELECT
        1 AS place,
        'orphan frees, all classes' AS what,
        o.nr,
        o.nr / nullif(t.frees, 0) AS share,
        CASE WHEN share > 0.05 THEN 'more than 5 % of the frees are of unknown pages' END AS warning
    FROM event_total AS t
    CROSS JOIN (SELECT coalesce(sum(nr), 0)::BIGINT AS nr FROM orphan) AS o
    UNION ALL
    SELECT 2, 'orphan frees, ' || c.class, coalesce(o.nr, 0), coalesce(o.nr, 0) / nullif(t.frees, 0), NULL
    FROM (VALUES ('compact_target'), ('preexisting'), ('without_event')) AS c (class)
    LEFT JOIN orphan AS o USING (class)
    CROSS JOIN event_total AS t
    UNION ALL
    SELECT 3, 'failed allocations', failed, failed / nullif(allocs, 0), NULL
    FROM event_total
    UNION ALL
    SELECT 4, 'lost events', CASE WHEN count(*) = count(events) THEN coalesce(sum(events), 0)::BIGINT END, NULL, CASE WHEN count(*) > 0 THEN 'the tape has gaps' END
    FROM lost
    UNION ALL
    SELECT 5, 'changed settings', count(*), NULL, NULL
    FROM parameter
    WHERE name <> 'pcp_high'
    UNION ALL
    SELECT
        6,
        'missing samples of /proc',
        coalesce(sum(samples), 0)::BIGINT,
        sum(samples) / (sum(samples) + (SELECT count(DISTINCT ts) FROM sample WHERE node IS NULL)),
        CASE WHEN count(*) > 0 THEN 'the samples have gaps: ' || string_agg(DISTINCT why::VARCHAR, ', ' ORDER BY why::VARCHAR) END
    FROM sample_gap
    WHERE file IS NULL
)
ORDER BY place, what

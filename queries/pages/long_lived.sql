-- Old pages in mostly free pageblocks, by task: who pins memory that is nearly a huge page.
--
-- A pageblock is mostly free if `--free-percent` of it are free in the last snapshot. The report lists the
-- pages in these blocks that the tape allocated, did not free, and that are at least `--age-s` seconds old at the
-- end. Compaction can move MOVABLE pages; pages of other migratetypes pin their block. Read
-- `pinned_blocks` first. A row without a migratetype counts the used pages that no allocation on the tape
-- explains: in use since before the tape, holes, or on per-CPU lists if the snapshot is from /proc.
--
-- `callers` is known for pages that a fallback took, at most 1 ms before the allocation, if the tape has
-- kernel stacks (`record --stacks extfrag`).
--
-- Needs: event.alloc, free_block or block_guess
-- Events: whole
-- Tier: A
--
-- Parameters:
--   free_percent  BIGINT 1..99 = 75  Share of a block that must be free, in percent.
--   age_s         DOUBLE 0..1000000000 = 1  Least age of a page at the end, in seconds.
--   top           BIGINT 0..1000000000 = 25  Maximum number of rows.
--
-- Columns:
--   comm           VARCHAR   Thread that allocated, or its pid; [unknown] for pages without an allocation on the tape.
--   cgroup         VARCHAR   Its control group, if known.
--   migratetype    VARCHAR   Requested migratetype; null if unknown.
--   page_order     UTINYINT  Order; null if unknown.
--   callers        VARCHAR   Kernel functions that asked, innermost first; null without a stack.
--   pages          BIGINT    Old pages of the row in mostly free pageblocks.
--   blocks         BIGINT    Mostly free pageblocks that hold them.
--   pinned_blocks  BIGINT    Of these, blocks that compaction cannot empty because of this row; null if unknown.
--   pinned_mib     DOUBLE    Free memory in these pinned_blocks, in MiB.
--   p50_age_s      DOUBLE    Median age of the pages at the end, in seconds.
--   max_age_s      DOUBLE    Age of the oldest one, in seconds.
WITH edge AS (
    SELECT tape, max(snapshot) AS last FROM zone GROUP BY tape
),

sparse AS MATERIALIZED (
    SELECT
        f.tape,
        f.number AS block,
        sum(f.pages)::BIGINT AS free,
        (1 << any_value(m.pageblock_order)) - sum(f.pages)::BIGINT AS used,
        any_value(m.page_size) AS page_size
    FROM block_free AS f
    JOIN machine AS m USING (tape)
    JOIN edge AS e ON e.tape = f.tape AND e.last = f.snapshot
    GROUP BY f.tape, f.number
    HAVING free * 100 >= (1 << any_value(m.pageblock_order)) * $free_percent::BIGINT AND used > 0
),

used AS (
    SELECT u.tape, s.block, u.migratetype, u.page_order, u.pid, u.pfn, u.ts
    FROM page_use AS u
    JOIN machine AS m USING (tape)
    JOIN sparse AS s ON s.tape = u.tape AND s.block = (u.pfn >> m.pageblock_order)::BIGINT
    WHERE u.until_ts IS NULL AND u.page_order < 20
),

-- Stacks of fallbacks, by the page that they got.
taken AS (
    SELECT e.tape, e.pfn, e.pid, e.ts, c.callers
    FROM event AS e
    JOIN stack AS s ON s.tape = e.tape AND s.event_ts = e.ts AND s.cpu = e.cpu AND s.pid = e.pid
    JOIN callers AS c ON c.tape = s.tape AND c.stack = s.stack
    WHERE e.kind IN ('alloc_extfrag', 'alloc') AND e.pfn IS NOT NULL
),

held AS MATERIALIZED (
    SELECT
        l.tape,
        l.block,
        coalesce(t.comm, l.pid::VARCHAR) AS comm,
        t.cgroup,
        l.migratetype,
        l.page_order,
        CASE WHEN l.ts - f.ts <= 1000000 THEN f.callers END AS callers,
        1::BIGINT << least(l.page_order::INTEGER, m.pageblock_order) AS pages,
        greatest(m.end_ts::BIGINT - l.ts::BIGINT, 0) / 1e9 AS age_s
    FROM used AS l
    JOIN machine AS m USING (tape)
    LEFT JOIN task AS t USING (tape, pid)
    ASOF LEFT JOIN taken AS f ON f.tape = l.tape AND f.pfn = l.pfn AND f.pid = l.pid AND f.ts <= l.ts
),

known AS (
    SELECT tape, block, sum(pages)::BIGINT AS pages FROM held GROUP BY tape, block
),

source AS (
    SELECT tape, block, comm, cgroup, migratetype, page_order, callers, pages, age_s
    FROM held
    WHERE age_s >= $age_s::DOUBLE
    UNION ALL
    SELECT s.tape, s.block, '[unknown]', NULL, NULL, NULL, NULL, s.used - coalesce(k.pages, 0), NULL
    FROM sparse AS s
    LEFT JOIN known AS k USING (tape, block)
    WHERE s.used > coalesce(k.pages, 0) AND s.tape IN (SELECT DISTINCT tape FROM event WHERE kind = 'alloc')
),

-- One row for each source and block.
of_block AS (
    SELECT
        comm,
        cgroup,
        migratetype,
        page_order,
        callers,
        tape,
        block,
        sum(pages)::BIGINT AS pages,
        list(age_s) AS ages
    FROM source
    GROUP BY ALL
),

counted AS (
    SELECT
        o.comm,
        o.cgroup,
        o.migratetype,
        o.page_order,
        o.callers,
        sum(o.pages)::BIGINT AS pages,
        count(*) AS blocks,
        sum(s.free::DOUBLE * s.page_size) / (1 << 20) AS mib,
        flatten(list(o.ages)) AS ages
    FROM of_block AS o
    JOIN sparse AS s USING (tape, block)
    GROUP BY ALL
)

SELECT
    *,
    CASE WHEN migratetype = 'MOVABLE' THEN 0 WHEN migratetype IS NOT NULL THEN blocks END AS pinned_blocks,
    round(CASE WHEN migratetype = 'MOVABLE' THEN 0 WHEN migratetype IS NOT NULL THEN mib END, 1) AS pinned_mib,
    round(list_aggregate(ages, 'quantile_cont', 0.5), 3) AS p50_age_s,
    round(list_max(ages), 3) AS max_age_s
FROM counted
ORDER BY pinned_blocks DESC NULLS LAST, pages DESC, comm, migratetype, page_order, cgroup, callers
LIMIT $top::BIGINT

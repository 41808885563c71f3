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
--
-- Events: whole
--
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

listed AS (
    SELECT tape, snapshot, node, zone, pfn, page_order FROM free_block
    UNION ALL
    SELECT tape, snapshot, node, zone, pfn, page_order FROM pcp_page
    UNION ALL
    SELECT g.tape, g.snapshot, g.node, g.zone, g.pfn, g.page_order
    FROM block_guess AS g
    ANTI JOIN (SELECT DISTINCT tape, snapshot, node, zone FROM free_block) AS b
        ON b.tape = g.tape AND b.snapshot = g.snapshot AND b.node = g.node AND b.zone = g.zone
),

part AS (
    SELECT
        l.tape,
        unnest(range(
            (l.pfn >> m.pageblock_order)::BIGINT,
            ((l.pfn + (1 << l.page_order::INTEGER) - 1) >> m.pageblock_order)::BIGINT + 1
        )) AS block,
        1 << least(l.page_order::INTEGER, m.pageblock_order) AS pages
    FROM listed AS l
    JOIN machine AS m USING (tape)
    JOIN edge AS e ON e.tape = l.tape AND e.last = l.snapshot
    WHERE l.page_order < 20  -- no kernel has larger blocks
),

sparse AS MATERIALIZED (
    SELECT
        p.tape,
        p.block,
        sum(p.pages)::BIGINT AS free,
        (1 << any_value(m.pageblock_order)) - sum(p.pages)::BIGINT AS used,
        any_value(m.page_size) AS page_size
    FROM part AS p
    JOIN machine AS m USING (tape)
    GROUP BY p.tape, p.block
    HAVING free * 100 >= (1 << any_value(m.pageblock_order)) * $free_percent::BIGINT AND used > 0
),

last_event AS (
    SELECT
        e.tape,
        s.block,
        arg_max(e.kind, e.ts) AS kind,
        arg_max(e.migratetype, e.ts) AS migratetype,
        arg_max(e.page_order, e.ts) AS page_order,
        arg_max(e.pid, e.ts) AS pid,
        e.pfn,
        max(e.ts) AS ts
    FROM event AS e
    JOIN machine AS m USING (tape)
    JOIN sparse AS s ON s.tape = e.tape AND s.block = (e.pfn >> m.pageblock_order)::BIGINT
    WHERE e.kind IN ('alloc', 'free') AND e.page_order < 20
    GROUP BY e.tape, s.block, e.pfn
),

-- Stacks of fallbacks, by the page that they got.
taken AS (
    SELECT e.tape, e.pfn, e.pid, e.ts, c.callers
    FROM stack AS s
    JOIN event AS e ON e.tape = s.tape AND e.ts = s.event_ts AND e.cpu = s.cpu AND e.pid = s.pid
    JOIN callers AS c ON c.tape = s.tape AND c.stack = s.stack
    WHERE e.kind IN ('alloc_extfrag', 'alloc') AND e.pfn IS NOT NULL
),

held AS MATERIALIZED (
    SELECT
        l.tape,
        l.block,
        coalesce(t.comm, l.pid::VARCHAR) AS comm,
        t.cgroup,
        l.migratetype::VARCHAR AS migratetype,
        l.page_order,
        CASE WHEN l.ts - f.ts <= 1000000 THEN f.callers END AS callers,
        1::BIGINT << least(l.page_order::INTEGER, m.pageblock_order) AS pages,
        greatest(m.end_ts::BIGINT - l.ts::BIGINT, 0) / 1e9 AS age_s
    FROM last_event AS l
    JOIN machine AS m USING (tape)
    LEFT JOIN task AS t USING (tape, pid)
    ASOF LEFT JOIN taken AS f ON f.tape = l.tape AND f.pfn = l.pfn AND f.pid = l.pid AND f.ts <= l.ts
    WHERE l.kind = 'alloc'
),

known AS (
    SELECT tape, block, sum(pages)::BIGINT AS pages FROM held GROUP BY tape, block
),

-- One row for each block and source; ages of the pages of a block are summed up later.
source AS (
    SELECT tape, block, comm, cgroup, migratetype, page_order, callers, pages, age_s
    FROM held
    WHERE age_s >= $age_s::DOUBLE
    UNION ALL
    SELECT s.tape, s.block, '[unknown]', NULL, NULL, NULL, NULL, s.used - coalesce(k.pages, 0), NULL
    FROM sparse AS s
    LEFT JOIN known AS k USING (tape, block)
    WHERE s.used > coalesce(k.pages, 0) AND s.tape IN (SELECT tape FROM event WHERE kind = 'alloc')
),

of_block AS (
    SELECT
        comm,
        cgroup,
        migratetype,
        page_order,
        callers,
        tape,
        block,
        sum(pages)::BIGINT AS pages
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
        sum(s.free::DOUBLE * s.page_size) / (1 << 20) AS mib
    FROM of_block AS o
    JOIN sparse AS s USING (tape, block)
    GROUP BY ALL
),

age AS (
    SELECT
        comm,
        cgroup,
        migratetype,
        page_order,
        callers,
        quantile_cont(age_s, 0.5) AS p50_age_s,
        max(age_s) AS max_age_s
    FROM source
    GROUP BY ALL
)

SELECT
    c.comm,
    c.cgroup,
    c.migratetype,
    c.page_order,
    c.callers,
    c.pages,
    c.blocks,
    CASE WHEN c.migratetype = 'MOVABLE' THEN 0 WHEN c.migratetype IS NOT NULL THEN c.blocks END AS pinned_blocks,
    round(CASE WHEN c.migratetype = 'MOVABLE' THEN 0 WHEN c.migratetype IS NOT NULL THEN c.mib END, 1) AS pinned_mib,
    round(a.p50_age_s, 3) AS p50_age_s,
    round(a.max_age_s, 3) AS max_age_s
FROM counted AS c
LEFT JOIN age AS a
    ON a.comm = c.comm
    AND a.cgroup IS NOT DISTINCT FROM c.cgroup
    AND a.migratetype IS NOT DISTINCT FROM c.migratetype
    AND a.page_order IS NOT DISTINCT FROM c.page_order
    AND a.callers IS NOT DISTINCT FROM c.callers
ORDER BY pinned_blocks DESC NULLS LAST, c.pages DESC, c.comm, c.migratetype, c.page_order, c.cgroup, c.callers
LIMIT $top::BIGINT

-- Regions of 1 GiB: pageblocks that taint them, and how many 1 GiB pages are possible.
--
-- A 1 GiB page needs a whole region of memory that is free, or that compaction can empty. One used page that
-- cannot move taints its region. Read `verdict` first, then `possible`: the number of regions at
-- that snapshot that are free or could be emptied, if there is free memory elsewhere.
--
-- `fixed_blocks` counts pageblocks with such a page: see the view block_use for sources and accuracy. A snapshot without
-- /proc/kpageflags shows only the migratetypes of the pageblocks: a MOVABLE one may still hold fixed pages, so the verdict
-- `untainted by type` is an upper bound. `task` allocated most of the pages on the tape that are not
-- MOVABLE and in use at its end: only for the last snapshot. The addresses of a private tape are moved.
--
-- Needs: pageblock
-- Tier: A
--
-- Parameters:
--   snapshot  BIGINT 0..65535  Number of the snapshot: 0 is the start; by default the last one with pageblocks.
--
-- Columns:
--   snapshot      USMALLINT  Number of the snapshot.
--   node          USMALLINT  NUMA node.
--   at_gib        UBIGINT    Address of the region, in GiB.
--   zones         VARCHAR    Zones of its pageblocks.
--   blocks        BIGINT     Pageblocks of the region that have memory; a whole region has 512 of 2 MiB.
--   unmovable     BIGINT     Of these, UNMOVABLE pageblocks.
--   reclaimable   BIGINT     RECLAIMABLE pageblocks.
--   reserved      BIGINT     HIGHATOMIC, ISOLATE and RESERVE pageblocks.
--   guessed       BIGINT     Pageblocks whose migratetype is guessed.
--   free_blocks   BIGINT     Pageblocks without a used page; null if unknown.
--   fixed_blocks  BIGINT     Pageblocks with a used page that cannot move; null if unknown.
--   fixed_pages   BIGINT     Used pages that cannot move; null if unknown.
--   task          VARCHAR    Task that allocated most of the known ones; null if unknown.
--   task_pages    BIGINT     Pages that it allocated.
--   verdict       VARCHAR    free, after compaction, tainted, or why the region cannot be judged.
--   possible      BIGINT     Regions of this snapshot that are free or could be emptied.
WITH shape AS (
    SELECT
        tape,
        pageblock_order,
        (1::BIGINT << 30) // page_size AS pages,
        (1::BIGINT << 30) // page_size >> pageblock_order AS blocks
    FROM machine
    WHERE page_size > 0 AND pageblock_order BETWEEN 0 AND 18
),

chosen AS (
    SELECT tape, coalesce($snapshot::BIGINT, max(snapshot)) AS snapshot, max(snapshot) AS last
    FROM pageblock
    GROUP BY tape
),

block AS (
    SELECT
        b.tape,
        b.snapshot,
        b.node,
        b.zone::VARCHAR AS zone,
        b.pfn,
        b.migratetype::VARCHAR AS migratetype,
        b.guessed,
        u.content,
        u.fixed_pages,
        (b.pfn // s.pages)::BIGINT AS region,
        s.blocks AS whole,
        c.snapshot = c.last AS at_end
    FROM pageblock AS b
    JOIN chosen AS c USING (tape, snapshot)
    JOIN shape AS s USING (tape)
    LEFT JOIN block_use AS u USING (tape, snapshot, node, zone, pfn)
),

counted AS (
    SELECT
        tape,
        snapshot,
        node,
        region,
        string_agg(DISTINCT zone, ' ' ORDER BY zone) AS zones,
        any_value(whole) AS whole,
        bool_and(at_end) AS at_end,
        count(DISTINCT pfn) AS blocks,
        count(DISTINCT pfn) FILTER (migratetype = 'UNMOVABLE') AS unmovable,
        count(DISTINCT pfn) FILTER (migratetype = 'RECLAIMABLE') AS reclaimable,
        count(DISTINCT pfn) FILTER (migratetype IN ('HIGHATOMIC', 'ISOLATE', 'RESERVE')) AS reserved,
        count(DISTINCT pfn) FILTER (guessed) AS guessed,
        CASE WHEN count(content) = count(*) THEN count(DISTINCT pfn) FILTER (content = 'free') END AS free_blocks,
        CASE WHEN count(content) = count(*) THEN count(DISTINCT pfn) FILTER (content IN ('fixed', 'mixed')) END
            AS fixed_blocks,
        CASE WHEN count(content) = count(*) THEN sum(fixed_pages) END AS fixed_pages
    FROM block
    GROUP BY tape, snapshot, node, region
),

held AS (
    SELECT
        u.tape,
        (u.pfn // s.pages)::BIGINT AS region,
        coalesce(t.comm, u.pid::VARCHAR) AS comm,
        sum(1::BIGINT << least(u.page_order::INTEGER, 20))::BIGINT AS pages
    FROM page_use AS u
    JOIN shape AS s USING (tape)
    LEFT JOIN task AS t USING (tape, pid)
    WHERE u.until_ts IS NULL AND u.migratetype <> 'MOVABLE'
    GROUP BY ALL
),

holder AS (
    SELECT tape, region, first(comm ORDER BY pages DESC, comm) AS comm, max(pages) AS pages
    FROM held
    GROUP BY tape, region
),

judged AS (
    SELECT
        c.*,
        CASE
            WHEN contains(c.zones, ' ') THEN 'no whole region: several zones'
            WHEN c.blocks < c.whole AND c.guessed > 0 AND c.unmovable + c.reclaimable + c.reserved = 0
                THEN printf('unclear: %d of %d pageblocks are known', c.blocks, c.whole)
            WHEN c.blocks < c.whole AND c.guessed = 0 THEN printf('no whole region: %d of %d pageblocks', c.blocks, c.whole)
            WHEN c.fixed_blocks IS NULL AND c.unmovable + c.reclaimable + c.reserved > 0 THEN 'tainted by type'
            WHEN c.fixed_blocks IS NULL THEN 'untainted by type'
            WHEN c.free_blocks = c.blocks THEN 'free'
            WHEN c.fixed_blocks = 0 THEN 'after compaction'
            ELSE printf('tainted: %d of %d pageblocks', c.fixed_blocks, c.blocks)
        END AS verdict
    FROM counted AS c
)

SELECT
    *,
    j.region::UBIGINT AS at_gib,
    CASE WHEN j.at_end THEN h.comm END AS task,
    CASE WHEN j.at_end THEN h.pages END AS task_pages,
    count(*) FILTER (j.verdict IN ('free', 'after compaction', 'untainted by type')) OVER (PARTITION BY j.tape, j.snapshot)
        AS possible
FROM judged AS j
LEFT JOIN holder AS h USING (tape, region)
ORDER BY j.snapshot, j.node, j.region

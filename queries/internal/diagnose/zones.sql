-- Memory of each zone at the start and at the end of the tape.
--
-- Columns:
--   at_end      BOOLEAN   The last snapshot; otherwise the first.
--   node        INTEGER   NUMA node.
--   zone        VARCHAR   Zone.
--   managed     BIGINT    Pages that the allocator manages.
--   free        BIGINT    Free pages.
--   wmark_min   BIGINT    Min watermark, in pages.
--   wmark_low   BIGINT    Low watermark, in pages.
--   wmark_high  BIGINT    High watermark, in pages.
--   usable      BIGINT    Free pages that a kernel request (GFP_KERNEL, order 0) may use; 0 in zones that it may not take.
--   at_most     BOOLEAN   `usable` is an upper bound: a count is unknown.
--   huge        BIGINT    Free pages that a request for a huge page may use.
--   huge_blocks BIGINT    Free pages in blocks that serve such a request; null if unknown.
--   huge_most   BOOLEAN   `huge` and `huge_blocks` are upper bounds: a count is unknown.
--   pcp_pages   BIGINT    Pages on per-CPU lists; null if unknown.
--   pcp_batch   BIGINT    Smallest batch of a list, in pages; null if unknown.
WITH edge AS (
    SELECT tape, min(snapshot) AS first, max(snapshot) AS last FROM zone GROUP BY tape
),

list AS (
    SELECT
        tape,
        snapshot,
        node,
        zone,
        sum("count")::BIGINT AS pages,
        min(batch)::BIGINT AS batch
    FROM pcp
    GROUP BY ALL
),

state AS (
    SELECT
        z.tape,
        z.snapshot,
        z.node,
        z.zone,
        greatest(coalesce(usable_pages(z, r.kernel, r.m), 0), 0) AS usable,
        greatest(usable_pages(z, r.huge, r.m), 0) AS huge,
        NOT unusable_known(z, r.kernel, r.m) AS at_most,
        CASE
            WHEN r.m['pageblock_order'] IS NOT NULL
                THEN coalesce(block_pages(z, r.huge), z.any_blocks[r.m['pageblock_order'] + 1])
        END AS huge_blocks,
        NOT unusable_known(z, r.huge, r.m) OR block_pages(z, r.huge) IS NULL AS huge_most
    FROM zone_state AS z
    JOIN (
        SELECT
            m.tape,
            m,
            alloc_request(gfp_mask(['IO', 'FS', 'DIRECT_RECLAIM', 'KSWAPD_RECLAIM']), 0, 'UNMOVABLE', h.has_highmem, m) AS kernel,
            alloc_request(
                gfp_mask(['IO', 'FS', 'DIRECT_RECLAIM', 'HARDWALL', 'HIGHMEM', 'MOVABLE']),
                coalesce(m.pageblock_order, 9),
                'MOVABLE',
                h.has_highmem,
                m
            ) AS huge
        FROM machine AS m
        JOIN (SELECT tape, bool_or(has_highmem) AS has_highmem FROM zone_state GROUP BY tape) AS h USING (tape)
    ) AS r USING (tape)
    WHERE z.snapshot IS NOT NULL
),

placed AS (
    SELECT z.*, e.first, e.last FROM zone AS z JOIN edge AS e USING (tape)
)

SELECT
    z.snapshot = z.last AND z.last > z.first AS at_end,
    z.node::INTEGER AS node,
    z.zone::VARCHAR AS zone,
    sum(z.managed)::BIGINT AS managed,
    sum(z.free)::BIGINT AS free,
    sum(z.wmark_min)::BIGINT AS wmark_min,
    sum(z.wmark_low)::BIGINT AS wmark_low,
    sum(z.wmark_high)::BIGINT AS wmark_high,
    max(s.usable)::BIGINT AS usable,
    bool_or(s.at_most) AS at_most,
    max(s.huge)::BIGINT AS huge,
    max(s.huge_blocks)::BIGINT AS huge_blocks,
    bool_or(s.huge_most) AS huge_most,
    max(l.pages)::BIGINT AS pcp_pages,
    max(l.batch)::BIGINT AS pcp_batch
FROM placed AS z
LEFT JOIN list AS l USING (tape, snapshot, node, zone)
LEFT JOIN state AS s ON s.tape = z.tape AND s.snapshot = z.snapshot AND s.node = z.node AND s.zone = z.zone
WHERE z.snapshot IN (z.first, z.last)
GROUP BY z.tape, z.snapshot, z.first, z.last, z.node, z.zone
ORDER BY at_end, z.node, z.zone

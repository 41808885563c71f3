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
--   usable      BIGINT    Free pages in blocks of pageblock order and larger; null if unknown.
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

area AS (
    SELECT
        a.tape,
        a.snapshot,
        a.node,
        a.zone,
        coalesce(sum(a.nr_free << a.page_order::INTEGER) FILTER (a.page_order >= m.pageblock_order), 0)
            AS usable
    FROM free_area AS a
    JOIN machine AS m USING (tape)
    WHERE m.pageblock_order IS NOT NULL AND a.page_order < 20  -- no kernel has larger blocks
    GROUP BY ALL
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
    max(a.usable)::BIGINT AS usable,
    max(l.pages)::BIGINT AS pcp_pages,
    max(l.batch)::BIGINT AS pcp_batch
FROM placed AS z
LEFT JOIN list AS l USING (tape, snapshot, node, zone)
LEFT JOIN area AS a USING (tape, snapshot, node, zone)
WHERE z.snapshot IN (z.first, z.last)
GROUP BY z.tape, z.snapshot, z.first, z.last, z.node, z.zone
ORDER BY at_end, z.node, z.zone

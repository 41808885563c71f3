-- Free blocks and the kernel's two fragmentation indices, by snapshot.
--
-- `unusable_free` is the share of free memory, in thousandths, that lies in blocks
-- too small for that order. `fragmentation_index` says why an allocation of that
-- order would fail: -1000 it would not, near 0 for want of memory, near 1000
-- because of fragmentation. Both are computed as in /sys/kernel/debug/extfrag,
-- over all migratetypes of the zone; pages on per-CPU lists are not free.
--
-- Tier: A
--
-- Columns:
--   snapshot             USMALLINT  0 at the start; the largest is the end.
--   node                 USMALLINT  NUMA node.
--   zone                 VARCHAR    Zone.
--   page_order           UTINYINT   Order.
--   nr_free              BIGINT     Free blocks of that order.
--   pages                BIGINT     Pages in them.
--   unusable_free        BIGINT     0 to 1000.
--   fragmentation_index  BIGINT     -1000, or 0 to 1000.
WITH block AS (
    SELECT snapshot, node, zone, page_order, sum(nr_free)::BIGINT AS nr_free
    FROM free_area
    GROUP BY snapshot, node, zone, page_order
),

summed AS (
    SELECT
        *,
        nr_free << page_order::INTEGER AS pages,
        sum(nr_free) OVER of_zone AS all_blocks,
        sum(nr_free << page_order::INTEGER) OVER of_zone AS all_pages,
        sum(nr_free << page_order::INTEGER) OVER (
            PARTITION BY snapshot, node, zone ORDER BY page_order DESC
        ) AS usable
    FROM block
    WINDOW of_zone AS (PARTITION BY snapshot, node, zone)
)

SELECT
    snapshot,
    node,
    zone,
    page_order,
    nr_free,
    pages,
    CASE WHEN all_pages = 0 THEN 1000 ELSE (all_pages - usable) * 1000 // all_pages END::BIGINT AS unusable_free,
    CASE
        WHEN all_blocks = 0 THEN 0
        WHEN usable > 0 THEN -1000
        ELSE 1000 - (1000 + all_pages * 1000 // (1::BIGINT << page_order::INTEGER)) // all_blocks
    END::BIGINT AS fragmentation_index
FROM summed
ORDER BY snapshot, node, zone, page_order

-- The kernel's three fragmentation indices, by snapshot, zone and order.
--
-- `unusable_free` is the share of free memory, in thousandths, that lies in blocks too
-- small for that order. `fragmentation_index` shows why an allocation of that order would
-- fail: near 0 because of a lack of memory, near 1000 because of fragmentation. -1000 means
-- that the allocation would succeed. Direct compaction does not run for values up to
-- vm.extfrag_threshold. `extfrag_for_order` is `unusable_free` in percent; proactive compaction
-- uses it. The first two are the digits of /sys/kernel/debug/extfrag without the decimal point:
-- `frag.debugfs` prints them in the kernel's format.
--
-- Pages on per-CPU lists do not count as free, though most of them would merge after a
-- drain. `drained_*` are the indices of an exact snapshot, or of the model's end state, with
-- every per-CPU list drained and all neighbours merged.
--
-- Tier: A
--
-- Columns:
--   snapshot                     USMALLINT  Number of the snapshot: 0 is the start, the largest is the end.
--   node                         USMALLINT  NUMA node.
--   zone                         VARCHAR    Zone.
--   page_order                   UTINYINT   Order.
--   nr_free                      BIGINT     Free blocks of that order.
--   pages                        BIGINT     Pages in them.
--   unusable_free                BIGINT     Share of free memory in smaller blocks, 0 to 1000.
--   fragmentation_index          BIGINT     -1000, or 0 to 1000.
--   extfrag_for_order            BIGINT     Share of free memory in smaller blocks, 0 to 100.
--   drained_unusable_free        BIGINT     unusable_free after a drain of all per-CPU lists; null if the pages on the lists are unknown.
--   drained_fragmentation_index  BIGINT     fragmentation_index after the drain; null as above.
--   drained_extfrag_for_order    BIGINT     extfrag_for_order after the drain; null as above.
WITH span AS (
    SELECT snapshot, node, zone, pfn::BIGINT AS first, (pfn + (1 << page_order::INTEGER))::BIGINT AS past
    FROM free_block
    UNION ALL
    SELECT snapshot, node, zone, pfn::BIGINT, (pfn + (1 << page_order::INTEGER))::BIGINT
    FROM pcp_page
    WHERE (snapshot, node, zone) IN (SELECT (snapshot, node, zone) FROM free_block)
),

-- Runs of contiguous free pages.
run AS (
    SELECT snapshot, node, zone, min(first) AS first, max(past) AS past
    FROM (
        SELECT *, sum(begins::INTEGER) OVER (PARTITION BY snapshot, node, zone ORDER BY first) AS nr
        FROM (
            SELECT
                *,
                first IS DISTINCT FROM lag(past) OVER (PARTITION BY snapshot, node, zone ORDER BY first) AS begins
            FROM span
        )
    )
    GROUP BY snapshot, node, zone, nr
),

-- Aligned blocks of each order in these runs, including parts of larger blocks.
aligned AS (
    SELECT
        snapshot,
        node,
        zone,
        o.page_order,
        sum(greatest((past >> o.page_order) - ((first + (1 << o.page_order) - 1) >> o.page_order), 0)) AS blocks
    FROM run
    CROSS JOIN (SELECT unnest(range(nr_orders))::INTEGER AS page_order FROM machine) AS o
    GROUP BY snapshot, node, zone, o.page_order
),

-- A merged block of order n has 2^n blocks of order 0 and 2^(n+1) - 1 aligned blocks in all, so
-- 2 * (blocks of order 0) - (all blocks) counts the merged blocks.
drained AS (
    SELECT
        snapshot,
        node,
        zone,
        page_order,
        blocks << page_order AS usable_pages,
        max(blocks) OVER of_zone AS free_pages,
        2 * max(blocks) OVER of_zone - sum(blocks) OVER of_zone AS free_blocks
    FROM aligned
    WINDOW of_zone AS (PARTITION BY snapshot, node, zone)
)

SELECT
    i.*,
    i.nr_free << i.page_order::INTEGER AS pages,
    unusable_free_index(d.free_pages, d.usable_pages) AS drained_unusable_free,
    fragmentation_index(i.page_order, d.free_blocks, d.free_pages, d.usable_pages) AS drained_fragmentation_index,
    extfrag_for_order(d.free_pages, d.usable_pages) AS drained_extfrag_for_order
FROM frag_index AS i
LEFT JOIN drained AS d USING (snapshot, node, zone, page_order)
WHERE i.snapshot IS NOT NULL
ORDER BY i.snapshot, i.node, i.zone, i.page_order

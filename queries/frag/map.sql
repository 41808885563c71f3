-- A map of the pageblocks: one letter each, lowest address first.
--
--   .  free
--   m  movable pages only
--   k  kernel pages only: used, but not movable
--   x  movable and kernel pages, in a pageblock that is not MOVABLE
--   X  movable and kernel pages, in a MOVABLE pageblock: it cannot become a huge page
--   ?  unknown: its pages changed between the lists and the reading of the flags
--
-- Pageblocks that the snapshot does not cover are blank. The view block_use describes the
-- sources and their accuracy.
--
-- Tier: A
--
-- Parameters:
--   snapshot  INTEGER 0..65535       Number of the snapshot. Default: the last.
--   width     INTEGER 1..4096 = 64  Pageblocks per line.
--
-- Columns:
--   node  USMALLINT  NUMA node.
--   zone  VARCHAR    Zone.
--   pfn   UBIGINT    First pfn of the line.
--   line  VARCHAR    The letters of these pageblocks.
--   moment  VARCHAR  Snapshot of the map: start, end, or its number.
WITH block AS (
    SELECT
        u.node,
        u.zone,
        (u.pfn >> m.pageblock_order)::BIGINT AS number,
        number // $width AS row_nr,
        CASE
            WHEN u.content = 'free' THEN '.'
            WHEN u.content = 'movable' THEN 'm'
            WHEN u.content = 'fixed' THEN 'k'
            WHEN u.content = 'unknown' THEN '?'
            WHEN u.migratetype = 'MOVABLE' THEN 'X'
            ELSE 'x'
        END AS letter,
        m.pageblock_order,
        CASE u.snapshot
            WHEN 0 THEN 'start'
            WHEN (SELECT greatest(max(snapshot), 1) FROM snapshot) THEN 'end'
            ELSE 'snapshot ' || u.snapshot
        END AS moment
    FROM block_use AS u
    JOIN machine AS m USING (tape)
    WHERE u.snapshot = coalesce($snapshot, (SELECT max(snapshot) FROM block_use))
)

SELECT
    node,
    zone::VARCHAR AS zone,
    ((row_nr * $width) << any_value(pageblock_order))::UBIGINT AS pfn,
    rtrim(list_aggregate(
        list_transform(range($width), lambda i: coalesce(map_from_entries(list((number - row_nr * $width, letter)))[i], ' ')),
        'string_agg', ''
    )) AS line,
    any_value(moment) AS moment
FROM block
GROUP BY node, block.zone, row_nr
ORDER BY node, block.zone, row_nr

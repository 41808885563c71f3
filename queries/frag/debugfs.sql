-- The fragmentation indices as /sys/kernel/debug/extfrag prints them, line by line.
--
-- The lines equal `cat unusable_index extfrag_index` on the machine, character by
-- character, including the blank at the end of each line.
--
-- Tier: A
--
-- Columns:
--   snapshot  USMALLINT  Number of the snapshot: 0 is the start, the largest is the end.
--   file      VARCHAR    unusable_index or extfrag_index.
--   line      VARCHAR    One zone: the index of each order, from 0 upwards.
WITH number AS (
    SELECT snapshot, node, zone, page_order, 'unusable_index' AS file, unusable_free AS nr, '' AS blank
    FROM frag_index
    UNION ALL
    SELECT snapshot, node, zone, page_order, 'extfrag_index', fragmentation_index, ' '
    FROM frag_index
)

SELECT
    snapshot,
    file,
    printf(
        'Node %d, zone %8s %s ',
        node,
        CASE WHEN zone LIKE 'DMA%' THEN zone::VARCHAR ELSE zone[1] || lower(zone[2:]) END,
        string_agg(
            -- Only -1.000 is below 0.
            CASE WHEN nr < 0 THEN '' ELSE blank END || printf('%d.%03d', nr // 1000, abs(nr) % 1000), ' '
            ORDER BY page_order
        )
    ) AS line
FROM number
WHERE snapshot IS NOT NULL
GROUP BY snapshot, node, zone, file
ORDER BY snapshot, file DESC, node, list_position(['DMA', 'DMA32', 'NORMAL', 'HIGHMEM', 'MOVABLE', 'DEVICE'], zone::VARCHAR)

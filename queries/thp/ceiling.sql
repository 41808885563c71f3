-- Huge pages after a perfect compaction, over time. Only for replayed tapes.
--
-- A pageblock can become a huge page if none of its used pages is unmovable or reclaimable:
-- compaction moves the others away, as long as there is free memory for them.
-- `now` counts blocks that need no compaction. Pages in use since before the tape and on no
-- LRU list are of unknown type, so the ceiling lies between two bounds: see
-- frag.mixed_blocks.
--
-- Tier: A
--
-- Columns:
--   at_s          DOUBLE     Seconds after the tape's first event.
--   node          USMALLINT  NUMA node.
--   zone          VARCHAR    Zone.
--   blocks        BIGINT     Pageblocks.
--   now           BIGINT     Free blocks of pageblock order on the free lists, including parts of larger blocks.
--   ceiling_low   BIGINT     Pageblocks whose used pages are all known to be movable.
--   ceiling_high  BIGINT     Pageblocks without a page that is known not to be movable.
--   low_percent   DOUBLE     ceiling_low of blocks, in percent.
--   high_percent  DOUBLE     ceiling_high of blocks, in percent.
WITH block AS (
    SELECT
        tape,
        ts,
        node,
        zone,
        sum(blocks)::BIGINT AS blocks,
        sum(thp_low)::BIGINT AS low,
        sum(thp_high)::BIGINT AS high
    FROM block_mix
    GROUP BY ALL
)

SELECT
    round((b.ts::BIGINT - m.start_ts::BIGINT) / 1e9, 3) AS at_s,
    b.node,
    b.zone,
    b.blocks,
    i.usable_pages >> m.pageblock_order AS now,
    b.low AS ceiling_low,
    b.high AS ceiling_high,
    round(100 * b.low / b.blocks, 1) AS low_percent,
    round(100 * b.high / b.blocks, 1) AS high_percent
FROM block AS b
JOIN machine AS m USING (tape)
LEFT JOIN frag_index AS i
    ON i.tape = b.tape
    AND i.snapshot IS NULL
    AND i.ts = b.ts
    AND i.node = b.node
    AND i.zone = b.zone
    AND i.page_order = m.pageblock_order
ORDER BY b.ts, b.node, b.zone

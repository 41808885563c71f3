-- Pageblocks in which migratetypes mix, over time. Only for replayed tapes.
--
-- Fallbacks are the cause, mixed pageblocks the harm: a huge page cannot come of a block
-- with one unmovable page in it. `mixed` blocks hold used pages of at least two of
-- unmovable, movable and reclaimable; `polluted` are MOVABLE blocks with a used page that
-- is not movable; `foreign` pages are of another migratetype than their block.
--
-- A tape tells the migratetype of a page when it is allocated. A page in use since
-- before is movable if it was on an LRU list then, and else unknown: each figure is a
-- `_low`, which is certain, and a `_high`, if all unknown pages are of the worst kind.
-- Two runs on one tape have the same unknown pages but for what was freed: their
-- difference is sharper than either.
--
-- Tier: A
--
-- Columns:
--   at_s           DOUBLE     Seconds after the tape's first event.
--   node           USMALLINT  NUMA node.
--   zone           VARCHAR    Zone.
--   blocks         BIGINT     Pageblocks.
--   live_blocks    BIGINT     Of these, those with a used page.
--   mixed_low      BIGINT     Pageblocks in which migratetypes mix.
--   mixed_high     BIGINT     The most that may.
--   mixed_percent  DOUBLE     mixed_low of live_blocks, in percent.
--   polluted_low   BIGINT     MOVABLE pageblocks with a page that is not movable.
--   polluted_high  BIGINT     The most that may have one.
--   foreign_low    BIGINT     Pages in a pageblock of another migratetype.
--   foreign_high   BIGINT     The most that may be.
--   unknown_pages  BIGINT     Used pages of unknown migratetype.
SELECT
    round((b.ts::BIGINT - any_value(m.start_ts)::BIGINT) / 1e9, 3) AS at_s,
    b.node,
    b.zone,
    sum(b.blocks)::BIGINT AS blocks,
    sum(b.live_blocks)::BIGINT AS live_blocks,
    sum(b.mixed_low)::BIGINT AS mixed_low,
    sum(b.mixed_high)::BIGINT AS mixed_high,
    round(100 * sum(b.mixed_low) / nullif(sum(b.live_blocks), 0), 2) AS mixed_percent,
    sum(b.polluted_low)::BIGINT AS polluted_low,
    sum(b.polluted_high)::BIGINT AS polluted_high,
    sum(b.foreign_low)::BIGINT AS foreign_low,
    sum(b.foreign_high)::BIGINT AS foreign_high,
    sum(b.unknown_pages)::BIGINT AS unknown_pages
FROM block_mix AS b
JOIN machine AS m USING (tape)
GROUP BY b.ts, b.node, b.zone
ORDER BY b.ts, b.node, b.zone

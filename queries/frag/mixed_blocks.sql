-- Pageblocks with mixed migratetypes, over time. Only for replayed tapes.
--
-- Fallbacks are the cause, mixed pageblocks the harm: one unmovable page in a pageblock
-- prevents a huge page. `mixed` blocks hold used pages of at least two of
-- unmovable, movable and reclaimable. `polluted` blocks are MOVABLE and hold a used page that
-- is not movable. `foreign` pages have another migratetype than their block.
--
-- A tape records a page's migratetype at the page's allocation. A page in use since
-- before the tape is movable if it was on an LRU list at the start, otherwise of unknown
-- type. Each figure is therefore a pair: `_low` counts the known pages, `_high` also
-- counts every unknown page as the worst type. Two runs on one tape share nearly all
-- unknown pages: their difference is more precise than either figure.
--
-- Tier: A
--
-- Columns:
--   at_s           DOUBLE     Seconds after the tape's first event.
--   node           USMALLINT  NUMA node.
--   zone           VARCHAR    Zone.
--   blocks         BIGINT     Pageblocks.
--   live_blocks    BIGINT     Pageblocks with at least one used page.
--   mixed_low      BIGINT     Pageblocks that certainly mix migratetypes.
--   mixed_high     BIGINT     Pageblocks that may mix migratetypes, upper bound.
--   mixed_percent  DOUBLE     mixed_low of live_blocks, in percent.
--   polluted_low   BIGINT     MOVABLE pageblocks that certainly hold a page that is not movable.
--   polluted_high  BIGINT     MOVABLE pageblocks that may hold such a page, upper bound.
--   foreign_low    BIGINT     Pages certainly in a pageblock of another migratetype.
--   foreign_high   BIGINT     Pages that may be in such a pageblock, upper bound.
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

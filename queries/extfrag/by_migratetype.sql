-- Fallbacks by requested migratetype, source migratetype and kind.
--
-- A fallback takes a free page from another migratetype's list. Read the rows with
-- below_pageblock first: there two migratetypes came to share a pageblock.
-- UNMOVABLE or RECLAIMABLE from MOVABLE hurts most, because compaction cannot undo
-- it. `claim` gave the block to the requested migratetype, `steal` left its migratetype
-- unchanged, `whole` moved a full pageblock and mixed nothing.
--
-- Since 6.15 the kernel emits the same event when compaction captures a page of
-- another migratetype. This report counts these events as fallbacks;
-- extfrag.captures counts them alone.
--
-- Tier: A
--
-- Columns:
--   alloc_migratetype     VARCHAR  Requested migratetype.
--   fallback_migratetype  VARCHAR  Migratetype of the free list that lost the page.
--   kind                  VARCHAR  claim, steal or whole.
--   below_pageblock       BOOLEAN  The free page was smaller than a pageblock.
--   nr                    BIGINT   Number of fallbacks.
SELECT
    alloc_migratetype,
    fallback_migratetype,
    kind,
    below_pageblock,
    count(*) AS nr
FROM extfrag
GROUP BY ALL
ORDER BY nr DESC, alloc_migratetype, fallback_migratetype, kind

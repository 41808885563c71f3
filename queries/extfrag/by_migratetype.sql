-- Fallbacks by requested migratetype, source migratetype and kind.
--
-- A fallback takes a free page from another migratetype's list. Read the rows with
-- below_pageblock first: these fallbacks mix two migratetypes in a pageblock.
-- UNMOVABLE and RECLAIMABLE requests that took MOVABLE pages do the most harm, because
-- compaction cannot move their pages. `claim` gave the block to the requested migratetype,
-- `steal` left its migratetype unchanged, `whole` moved a full pageblock and mixed nothing.
--
-- Since 6.15 the kernel emits the same event when compaction captures a page of
-- another migratetype. This report counts these events as fallbacks;
-- extfrag.captures shows them separately.
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

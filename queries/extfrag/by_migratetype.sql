-- Fallbacks by the migratetype asked for, the one raided, and the kind.
--
-- A fallback takes a free page from another migratetype's list. Read the rows with
-- below_pageblock first: there two migratetypes came to share a pageblock, and
-- UNMOVABLE or RECLAIMABLE from MOVABLE hurts most, since no compaction can undo
-- it. `claim` turned the block over to the newcomer, `steal` left it with its
-- owner, `whole` moved a full pageblock and mixed nothing.
--
-- Since 6.15 the kernel prints the same event when compaction captures a page of
-- another migratetype. Such rows are counted here as the event says;
-- extfrag.captures tells how many they are.
--
-- Tier: A
--
-- Columns:
--   alloc_migratetype     VARCHAR  Migratetype asked for.
--   fallback_migratetype  VARCHAR  Migratetype whose list was raided.
--   kind                  VARCHAR  claim, steal or whole.
--   below_pageblock       BOOLEAN  The free page was smaller than a pageblock.
--   nr                    BIGINT   How many times.
SELECT
    alloc_migratetype,
    fallback_migratetype,
    kind,
    below_pageblock,
    count(*) AS nr
FROM extfrag
GROUP BY ALL
ORDER BY nr DESC, alloc_migratetype, fallback_migratetype, kind

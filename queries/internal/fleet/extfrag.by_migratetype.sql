-- Fallbacks of each tape by types and kind.
--
-- Needs: event.alloc_extfrag
--
-- Columns:
--   tape                  BIGINT   Number of the tape.
--   alloc_migratetype     VARCHAR  Requested migratetype.
--   fallback_migratetype  VARCHAR  Migratetype of the free list that lost the page.
--   kind                  VARCHAR  claim, steal or whole.
--   below_pageblock       BOOLEAN  The free page was smaller than a pageblock.
--   nr                    BIGINT   Number of fallbacks.
SELECT tape, alloc_migratetype, fallback_migratetype, kind, below_pageblock, sum(events)::BIGINT AS nr
FROM fleet_extfrag
GROUP BY ALL

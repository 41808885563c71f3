-- Fallbacks of an archive's tapes, counted by types, orders, kind, node and zone.
--
-- Kinds are those of the view extfrag.
--
-- Columns:
--   tape                  BIGINT   Number of the tape; see fleet_tape.
--   alloc_migratetype     VARCHAR  Requested migratetype.
--   fallback_migratetype  VARCHAR  Migratetype of the free list that lost the page.
--   alloc_order           INTEGER  Requested order.
--   fallback_order        INTEGER  Order of the free page taken.
--   kind                  VARCHAR  whole, claim or steal; null if the tape lacks the pageblock order.
--   below_pageblock       BOOLEAN  The free page was smaller than a pageblock.
--   node                  INTEGER  NUMA node; null if no snapshot of the tape shows it.
--   zone                  VARCHAR  Zone; null if no snapshot of the tape shows it.
--   events                BIGINT   Number of fallbacks.
SELECT
    *,
    (segment::BIGINT << 32) | number AS tape
FROM archived_extfrag

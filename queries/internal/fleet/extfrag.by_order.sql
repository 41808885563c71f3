-- Fallbacks of each tape by requested order and order taken.
--
-- Needs: event.alloc_extfrag
--
-- Columns:
--   tape             BIGINT   Number of the tape.
--   alloc_order      INTEGER  Requested order.
--   fallback_order   INTEGER  Order of the free page taken.
--   below_pageblock  BOOLEAN  The free page was smaller than a pageblock.
--   nr               BIGINT   Number of fallbacks.
SELECT tape, alloc_order, fallback_order, below_pageblock, sum(events)::BIGINT AS nr
FROM fleet_extfrag
GROUP BY ALL

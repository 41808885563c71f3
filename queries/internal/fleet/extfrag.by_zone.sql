-- Fallbacks of each tape by node, zone and kind.
--
-- Needs: event.alloc_extfrag
--
-- Columns:
--   tape             BIGINT   Number of the tape.
--   node             INTEGER  NUMA node.
--   zone             VARCHAR  Zone.
--   kind             VARCHAR  claim, steal or whole.
--   below_pageblock  BOOLEAN  The free page was smaller than a pageblock.
--   nr               BIGINT   Number of fallbacks.
SELECT tape, node, zone, kind, below_pageblock, sum(events)::BIGINT AS nr
FROM fleet_extfrag
GROUP BY ALL

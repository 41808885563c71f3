-- Free blocks of an archive's tapes at their begin and end, by zone, migratetype and order.
--
-- Columns:
--   tape         BIGINT   Number of the tape; see fleet_tape.
--   moment       VARCHAR  begin or end.
--   node         INTEGER  NUMA node.
--   zone         VARCHAR  Zone.
--   migratetype  VARCHAR  Migratetype of the free list; null if only buddyinfo was readable.
--   page_order   INTEGER  Order of the blocks.
--   blocks       BIGINT   Number of free blocks.
SELECT
    *,
    (segment::BIGINT << 32) | number AS tape
FROM archived_free

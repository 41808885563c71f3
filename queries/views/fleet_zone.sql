-- Zones of an archive's tapes at their begin and end.
--
-- Columns:
--   tape        BIGINT   Number of the tape; see fleet_tape.
--   moment      VARCHAR  begin or end.
--   node        INTEGER  NUMA node.
--   zone        VARCHAR  Zone.
--   managed     BIGINT   Pages that the allocator manages.
--   free        BIGINT   Pages in the buddy lists.
--   wmark_min   BIGINT   Min watermark, in pages.
--   wmark_low   BIGINT   Low watermark, in pages.
--   wmark_high  BIGINT   High watermark, in pages.
SELECT
    *,
    (segment::BIGINT << 32) | number AS tape
FROM archived_zone

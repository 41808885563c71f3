-- Counters of /proc/vmstat of an archive's tapes: by how much each one changed.
--
-- A counter without a row did not change, if fleet_tape has `counters`. Counters of huge pages, compaction, stalls and OOM kills have rows.
--
-- Columns:
--   tape    BIGINT   Number of the tape; see fleet_tape.
--   name    VARCHAR  Name as the kernel prints it.
--   change  BIGINT   Last value of the tape minus the first one.
SELECT
    (segment::BIGINT << 32) | number AS tape,
    name,
    change
FROM archived_counter

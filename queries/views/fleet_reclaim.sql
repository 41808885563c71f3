-- Reclaim and compaction of an archive's tapes, summed by activity.
--
-- Activities are those of the report reclaim.summary.
--
-- Columns:
--   tape      BIGINT   Number of the tape; see fleet_tape.
--   what      VARCHAR  Activity.
--   runs      BIGINT   Number of runs or events.
--   pages     BIGINT   Pages reclaimed or migrated; null if the events have none.
--   total_ms  DOUBLE   Total time of the runs, in ms; null for events without a time.
--   max_ms    DOUBLE   The longest run, in ms.
SELECT
    *,
    (segment::BIGINT << 32) | number AS tape
FROM archived_reclaim

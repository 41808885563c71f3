-- Reclaim and compaction of each tape by activity.
--
-- Needs: reclaim or compaction
--
-- Columns:
--   tape      BIGINT   Number of the tape.
--   what      VARCHAR  Activity.
--   nr        BIGINT   Number of runs or events.
--   pages     BIGINT   Pages reclaimed or migrated, if the event has them.
--   total_ms  DOUBLE   Total time of these runs, in ms.
SELECT tape, what, runs AS nr, pages, total_ms
FROM fleet_reclaim

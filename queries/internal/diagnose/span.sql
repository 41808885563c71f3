-- Length of the recording, of which the shares of time are: that of its events, as `info` prints it.
--
-- A tape of rare events may have its first event long after its start: the events alone would make
-- every share of time too large. Without page events, the longest of events, snapshots and samples counts.
--
-- Columns:
--   seconds  DOUBLE   Length in seconds; 0 if nothing on the tape has a time.
--   covers   VARCHAR  What it is the length of: events, snapshots or samples.
WITH known AS (
    SELECT 'events' AS covers, (end_ts - start_ts)::BIGINT AS ns FROM machine
    WHERE end_ts >= start_ts AND (recorded IS NULL OR len(recorded) > 0)
    UNION ALL
    SELECT 'snapshots', (max(ts) - min(ts))::BIGINT FROM snapshot WHERE ts > 0
    UNION ALL
    SELECT 'samples', (max(ts) - min(ts))::BIGINT FROM sample WHERE ts > 0
)

SELECT coalesce(max(ns), 0)::DOUBLE / 1e9 AS seconds, coalesce(arg_max(covers, ns), 'events') AS covers
FROM known
WHERE covers = 'events' OR NOT EXISTS (SELECT 1 FROM event WHERE kind IN ('alloc', 'free'))

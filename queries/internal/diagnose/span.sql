-- Length of the recording: the longest of its events, its snapshots and its samples.
--
-- A tape of rare events may have its first event long after its start: the events alone would make
-- every share of time too large.
--
-- Columns:
--   seconds  DOUBLE  Length in seconds; 0 if nothing on the tape has a time.
SELECT coalesce(max(ns), 0)::DOUBLE / 1e9 AS seconds
FROM (
    SELECT (end_ts - start_ts)::BIGINT AS ns FROM machine WHERE end_ts >= start_ts
    UNION ALL
    SELECT (max(ts) - min(ts))::BIGINT FROM snapshot WHERE ts > 0
    UNION ALL
    SELECT (max(ts) - min(ts))::BIGINT FROM sample WHERE ts > 0
)

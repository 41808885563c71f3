-- Values of the machine's counters in /proc/vmstat, each at the time when the file was read.
--
-- Sources: the first snapshot, and the samples after it. A counter without a row at a time has not changed since the
-- time before. Samples whose files share one stamp (`began` is null) have no instant, and are left out.
--
-- Columns:
--   tape   VARCHAR  Name of the tape.
--   ts     UBIGINT  Trace clock right after the reading, ns.
--   began  UBIGINT  Trace clock right before it, ns; null if unknown.
--   name   VARCHAR  Name as the kernel prints it.
--   value  BIGINT   Value.
WITH sampled AS (
    SELECT tape, ts, began, name, value FROM sample WHERE node IS NULL AND began IS NOT NULL
)

SELECT tape, ts, began, name, value FROM sampled
UNION ALL
SELECT v.tape, v.ts, v.began, v.name, v.value
FROM vmstat AS v
WHERE v.snapshot = 0
  AND v.ts > 0
  AND v.ts < (SELECT min(s.ts) FROM sampled AS s WHERE s.tape = v.tape)

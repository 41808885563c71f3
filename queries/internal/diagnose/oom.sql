-- OOM kills that the tape recorded as events.
--
-- Columns:
--   kills   BIGINT   Victims of the OOM killer.
--   victim  VARCHAR  Name of the first victim; null if unknown.
SELECT count(*) AS kills, arg_min(t.comm, r.ts) AS victim
FROM reclaim AS r
LEFT JOIN task AS t ON t.tape = r.tape AND t.pid = r.victim_pid
WHERE r.kind = 'mark_victim'

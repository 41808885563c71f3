-- Runs of events of one CPU under one hold of the zone lock, one row each.
--
-- A refill of a per-CPU list is a run of alloc_zone_locked events, a drain a run of pcpu_drain events, without another event
-- of the CPU between. Two consecutive free_batched events are a row of their own: they have almost no work between them.
--
-- Columns:
--   tape      VARCHAR    Name of the tape.
--   what      VARCHAR    take: a refill; give: a drain; trace: a pair of free_batched.
--   cpu       USMALLINT  CPU.
--   blocks    UBIGINT    Events of the run.
--   from_ts   UBIGINT    First event, trace clock in ns.
--   until_ts  UBIGINT    Last event.
SELECT tape, what::VARCHAR AS what, cpu, blocks, from_ts, until_ts
FROM sequence_lock_run

-- Gaps in the recording, one slice each, on a track per CPU.
--
-- Parameters:
--   machine_pid  BIGINT  Pid that stands for the page allocator.
--
-- Columns:
--   pid   INTEGER  Process of the track.
--   tid   INTEGER  Thread of the track.
--   ts    UBIGINT  Trace clock, ns.
--   ns    UBIGINT  Width of the gap, ns.
--   name  VARCHAR  lost.
--   args  STRUCT   cpu; events: number of lost events, null if unknown.
SELECT $machine_pid AS pid, $machine_pid + 1 + cpu AS tid, from_ts AS ts,
    coalesce(to_ts, from_ts) - from_ts AS ns, 'lost' AS name,
    {'cpu': cpu, 'events': events} AS args
FROM lost
WHERE from_ts IS NOT NULL
ORDER BY ALL

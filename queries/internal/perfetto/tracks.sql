-- Names of the tracks of the page allocator and of each zone.
--
-- Parameters:
--   machine_pid  BIGINT     Pid that stands for the page allocator; the zones come after it.
--   zones        VARCHAR[]  The kernel's zone names, lowest first.
--
-- Columns:
--   ph    VARCHAR  M: metadata.
--   pid   BIGINT   Process of the track.
--   tid   BIGINT   Thread of the track.
--   ts    INTEGER  Trace clock, ns.
--   ns    UBIGINT  Null.
--   name  VARCHAR  process_name.
--   args  STRUCT   name: the track.
WITH zone_track AS (
    SELECT DISTINCT node, zone,
        $machine_pid + 1 + node * len($zones::VARCHAR[])
            + list_position($zones::VARCHAR[], zone) AS track
    FROM zone
)
SELECT 'M' AS ph, $machine_pid AS pid, $machine_pid AS tid, 0 AS ts, NULL::UBIGINT AS ns,
    'process_name' AS name, {'name': 'page allocator'} AS args
UNION ALL
SELECT 'M', track, track, 0, NULL, 'process_name', {'name': format('node {} {}', node, zone)}
FROM zone_track
ORDER BY ALL

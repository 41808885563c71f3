-- Names of the tracks of the page allocator and of each zone.
--
-- Parameters:
--   machine_pid  BIGINT     Pid that stands for the page allocator; the zones come after it.
--   zones        VARCHAR[]  The kernel's zone names, lowest first.
--
-- Columns:
--   pid   BIGINT   Process of the track.
--   name  VARCHAR  process_name.
--   args  STRUCT   name: the track.
WITH zone_track AS (
    SELECT DISTINCT node, zone,
        $machine_pid + 1 + node * len($zones::VARCHAR[])
            + list_position($zones::VARCHAR[], zone) AS track
    FROM zone
)
SELECT $machine_pid AS pid,
    'process_name' AS name, {'name': 'page allocator'} AS args
UNION ALL
SELECT track, 'process_name', {'name': format('node {} {}', node, zone)}
FROM zone_track
ORDER BY ALL

-- Change of each counter of /proc/vmstat between the start and the end of the tape.
--
-- The first and the last snapshot with counters give the change. A tape with fewer than two of
-- them uses its samples, without those whose files share one stamp. A counter that the kernel keeps by zone is the sum
-- of its zones. Counters of /proc/zoneinfo are left out.
--
-- Columns:
--   name     VARCHAR  Name as the kernel prints it, without that of a zone.
--   change   BIGINT   Value at the end minus value at the start.
--   seconds  DOUBLE   Time between the two readings; null if unknown.
WITH instant AS (
    SELECT tape, name, ts, snapshot::BIGINT AS place, value FROM vmstat
    UNION ALL
    SELECT tape, name, ts, ts::BIGINT, value
    FROM sample
    WHERE node IS NULL
      AND began IS NOT NULL
      AND tape NOT IN (SELECT tape FROM vmstat GROUP BY tape HAVING count(DISTINCT snapshot) > 1)
),

changed AS (
    SELECT
        tape,
        counter_of_zones(name) AS name,
        (arg_max(value, place) - arg_min(value, place))::BIGINT AS change,
        CASE WHEN min(ts) > 0 THEN (max(ts) - min(ts))::DOUBLE / 1e9 END AS seconds
    FROM instant AS i
    GROUP BY tape, i.name
)

SELECT name, sum(change)::BIGINT AS change, max(seconds) AS seconds
FROM changed
GROUP BY tape, name
ORDER BY name

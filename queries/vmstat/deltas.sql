-- Change of each counter of /proc/vmstat during the recording, by the kernel's names.
--
-- A row compares the first snapshot with the last one; a tape with one snapshot is followed to its
-- last sample. Names that begin with nr_ are levels, all others count events or pages since boot.
-- `per_s` is the change per second between the two readings; it is empty if an import does not know
-- their times.
--
-- Tier: -
--
-- Columns:
--   name    VARCHAR  Name as the kernel prints it.
--   first   BIGINT   Value at the first reading.
--   last    BIGINT   Value at the last reading.
--   delta   BIGINT   Last less first.
--   over_s  DOUBLE   Time between the two readings, in seconds.
--   per_s   DOUBLE   Change per second.
WITH point AS (
    SELECT name, value, ts, snapshot > 0 AS late
    FROM vmstat
    UNION ALL
    -- A counter without a sample has not changed.
    SELECT name, value, ts, true
    FROM sample
    WHERE node IS NULL
      AND began IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM vmstat WHERE snapshot > 0)
),

span AS (
    SELECT CASE WHEN min(ts) > 0 THEN (max(ts) - min(ts)) / 1e9 END AS seconds FROM point
),

change AS (
    SELECT
        name,
        arg_min(value, ts) FILTER (NOT late) AS first,
        coalesce(arg_max(value, ts) FILTER (late), any_value(value) FILTER (NOT late)) AS last
    FROM point
    GROUP BY name
)

SELECT
    c.name,
    c.first,
    c.last,
    c.last - c.first AS delta,
    round(s.seconds, 3) AS over_s,
    round((c.last - c.first) / nullif(s.seconds, 0), 3) AS per_s
FROM change AS c
CROSS JOIN span AS s
WHERE c.first IS NOT NULL
ORDER BY c.name

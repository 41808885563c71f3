-- Rows of fleet_zone for one tape.
--
-- Columns: of fleet_zone, without the tape
SELECT
    if(snapshot = 0, 'begin', 'end') AS moment,
    node::INTEGER AS node,
    zone::VARCHAR AS zone,
    managed::BIGINT AS managed,
    free::BIGINT AS free,
    wmark_min::BIGINT AS wmark_min,
    wmark_low::BIGINT AS wmark_low,
    wmark_high::BIGINT AS wmark_high
FROM zone
WHERE managed > 0 AND snapshot IN (0, (SELECT max(snapshot) FROM zone))
ORDER BY ALL

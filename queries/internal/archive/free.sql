-- Rows of fleet_free for one tape.
--
-- Columns: of fleet_free, without the tape
SELECT
    if(snapshot = 0, 'begin', 'end') AS moment,
    node::INTEGER AS node,
    zone::VARCHAR AS zone,
    migratetype::VARCHAR AS migratetype,
    page_order::INTEGER AS page_order,
    sum(nr_free)::BIGINT AS blocks
FROM free_area
WHERE nr_free > 0 AND snapshot IN (0, (SELECT max(snapshot) FROM free_area))
GROUP BY ALL
ORDER BY ALL

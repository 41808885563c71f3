-- What the allocator decides by, where it changed during the recording.
--
-- Watermarks (without the boost), managed pages, reserves, the limits of the per-CPU
-- lists and the sysctls, looked at once per sample. pcp_high changes by itself since
-- 6.7; anything else means that somebody turned a knob, or that memory came or went.
--
-- Tier: A
--
-- Parameters:
--   name  VARCHAR = %  Only names like this, as in SQL: wmark%.
--
-- Columns:
--   at_s    DOUBLE     When it was seen, seconds after the tape's first event.
--   name    VARCHAR    Which.
--   node    USMALLINT  NUMA node.
--   zone    VARCHAR    Zone.
--   cpu     USMALLINT  CPU of a per-CPU list.
--   before  BIGINT     What it was at its last change; null: as in the first snapshot.
--   value   BIGINT     What it is from then on.
SELECT
    round((ts::BIGINT - (SELECT start_ts FROM machine)::BIGINT) / 1e9, 3) AS at_s,
    name,
    node,
    zone::VARCHAR AS zone,
    cpu,
    lag(value) OVER (PARTITION BY name, node, zone, cpu ORDER BY ts) AS before,
    value
FROM parameter
WHERE name LIKE $name
ORDER BY ts, name, node, zone, cpu

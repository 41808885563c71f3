-- Allocator parameters that changed during the recording.
--
-- Each sample reads watermarks (without the boost), managed pages, reserves, the limits of
-- the per-CPU lists, the sysctls and the settings of huge pages. The kernel tunes pcp_high itself since 6.7. Any other
-- change means that someone changed a setting, or that memory was added or removed.
--
-- Tier: A
--
-- Parameters:
--   name  VARCHAR = %  Only names that match this SQL LIKE pattern, such as wmark%.
--
-- Columns:
--   at_s    DOUBLE     Time of the first sample with the new value, seconds after the tape's first event.
--   name    VARCHAR    Parameter: see `pagetape schema parameter`.
--   node    USMALLINT  NUMA node.
--   zone    VARCHAR    Zone.
--   cpu     USMALLINT  CPU of a per-CPU list.
--   before  BIGINT     Value at the last change; null: the value of the first snapshot.
--   value   BIGINT     Value from then on.
--   text    VARCHAR    The word of the value, where the setting is a choice among words.
SELECT
    *,
    round((ts::BIGINT - (SELECT start_ts FROM machine)::BIGINT) / 1e9, 3) AS at_s,
    lag(value) OVER (PARTITION BY name, node, zone, cpu ORDER BY ts) AS before
FROM parameter
WHERE name LIKE $name
ORDER BY ts, name, node, zone, cpu

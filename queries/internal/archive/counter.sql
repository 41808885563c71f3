-- Rows of fleet_counter for one tape.
--
-- These counters never fall: the largest reading minus the smallest is the change.
--
-- Columns: of fleet_counter, without the tape
WITH reading AS (
    SELECT name, value FROM vmstat
    UNION ALL
    SELECT name, value FROM sample WHERE node IS NULL
)

SELECT name, max(value) - min(value) AS change
FROM reading
WHERE regexp_matches(name, '^(thp_fault_|thp_collapse_alloc|compact_(stall|fail|success)$|allocstall|oom_kill$)')
GROUP BY name
HAVING change > 0
ORDER BY name

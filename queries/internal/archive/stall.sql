-- Rows of fleet_stall for one tape.
--
-- Columns:
--   what      VARCHAR  direct, node_reclaim, memcg, compact, throttled; any is their union.
--   class     VARCHAR  task, or kthread for kernel threads.
--   bucket    INTEGER  Number of the bucket.
--   stalls    BIGINT   Number of stalls.
--   total_us  DOUBLE   Their total time, in us.
--   max_us    DOUBLE   The longest of them, in us.
SELECT
    what,
    class,
    if(us < 1, -1, floor(4 * log2(greatest(us, 1)))::INTEGER) AS bucket,
    count(*) AS stalls,
    round(sum(us), 3) AS total_us,
    max(us) AS max_us
FROM stall_length
GROUP BY ALL
ORDER BY what, class, bucket

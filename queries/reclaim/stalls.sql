-- How long allocations waited for reclaim and compaction: p50, p95, p99, max.
--
-- The percentiles are those of simoop, but each value is a single stall: compare the
-- ratios between policies, not the values with simoop's. Each row is one kind of waiting. `any`
-- merges the overlapping stalls of a thread: the time that the thread lost. The report leaves
-- out runs without begin or end on the tape, because their duration is unknown. It also leaves
-- out kswapd, kcompactd, khugepaged, and compaction or node reclaim that a task asked for through
-- /proc or /sys: no allocation waits for it (see compaction.results). Reclaim of a memory control
-- group is in `memcg`, whether it was at its limit or a task wrote to memory.reclaim. The stalls of a replayed tape are those of the model, whose reclaim
-- takes the recorded times. Kernel threads, such as writeback and loop devices, have rows of
-- their own.
--
-- Needs: reclaim or compaction
-- Tier: B
--
-- Columns:
--   what      VARCHAR  direct, node_reclaim, memcg, compact, throttled; any is their union.
--   class     VARCHAR  task, or kthread for kernel threads.
--   nr        BIGINT   Number of stalls.
--   total_us  DOUBLE   Total time of all stalls, in us.
--   p50_us    DOUBLE   Median: half of the stalls were shorter, in us.
--   p95_us    DOUBLE   95th percentile: 5 % of the stalls were longer, in us.
--   p99_us    DOUBLE   99th percentile: 1 % of the stalls were longer, in us.
--   max_us    DOUBLE   The longest stall, in us.
SELECT
    what,
    class,
    count(*) AS nr,
    round(sum(us), 1) AS total_us,
    round(quantile_cont(us, 0.5), 1) AS p50_us,
    round(quantile_cont(us, 0.95), 1) AS p95_us,
    round(quantile_cont(us, 0.99), 1) AS p99_us,
    round(max(us), 1) AS max_us
FROM stall_length
GROUP BY what, class
ORDER BY what = 'any', what, class

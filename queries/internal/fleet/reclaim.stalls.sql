-- Stalls of each tape by what the thread waited for.
--
-- Needs: reclaim or compaction
--
-- Columns:
--   tape      BIGINT   Number of the tape.
--   what      VARCHAR  direct, node_reclaim, memcg, compact, throttled; any is their union.
--   class     VARCHAR  task, or kthread for kernel threads.
--   nr        BIGINT   Number of stalls.
--   total_us  DOUBLE   Total time of all stalls, in us.
SELECT tape, what, class, sum(stalls)::BIGINT AS nr, sum(total_us) AS total_us
FROM fleet_stall
GROUP BY ALL

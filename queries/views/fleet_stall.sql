-- Stalls of an archive's tapes as histograms: how long threads waited for reclaim and compaction.
--
-- Stalls are those of the report reclaim.stalls. The lengths of bucket n are from 2^(n/4) to below 2^((n+1)/4) us;
-- bucket -1 has those below 1 us.
--
-- Columns:
--   tape      BIGINT   Number of the tape; see fleet_tape.
--   what      VARCHAR  direct, node_reclaim, memcg, compact, throttled; any is their union.
--   class     VARCHAR  task, or kthread for kernel threads.
--   bucket    INTEGER  Number of the bucket.
--   stalls    BIGINT   Number of stalls.
--   total_us  DOUBLE   Their total time, in us.
--   max_us    DOUBLE   The longest of them, in us.
SELECT
    *,
    (segment::BIGINT << 32) | number AS tape
FROM archived_stall

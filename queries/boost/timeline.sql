-- Watermark boosts over time: how often fallbacks asked for one, and how long it lasted.
--
-- A fallback into part of a pageblock raises its zone's watermarks. kswapd then reclaims,
-- and kcompactd makes whole blocks again (watermark_boost_factor, since 5.0).
-- Read `asks` first. If the tape has kswapd's passes, which reset the boost, the replay
-- applies the boost: `boosted_ms` is its duration, `saturated` the number of asks at the
-- limit of the boost. Without these passes the replay does not know when a boost ends; both
-- columns are 0.
--
-- Under the policy `stall`, `stalls` counts the allocations that would have waited for
-- kswapd instead of mixing migratetypes. `stall_refusals` counts the fallbacks that the
-- policy refused. R0 does not model the response of kswapd.
--
-- Only for replayed tapes. Intervals without any of these events have no row.
--
-- Tier: B
--
-- Columns:
--   at_s                 DOUBLE     Seconds since the first interval.
--   node                 USMALLINT  NUMA node.
--   zone                 VARCHAR    Zone.
--   asks                 BIGINT     Boosts asked for.
--   saturated            BIGINT     Boosts asked for while the boost was at its limit.
--   boosted_ms           DOUBLE     Time with raised watermarks, in ms.
--   saturated_ms         DOUBLE     Part of boosted_ms with the boost at its limit, in ms.
--   slowpath_wake_calls  BIGINT     Slow-path entries that call wakeup_kswapd.
--   stalls               BIGINT     Allocations that `stall` would have delayed.
--   stall_refusals       BIGINT     Fallbacks that `stall` would have refused.
SELECT
    (ts - (SELECT min(ts) FROM counter)) / 1e9 AS at_s,
    node,
    zone,
    sum(boost_asks)::BIGINT AS asks,
    sum(coalesce(boost_saturated, 0))::BIGINT AS saturated,
    sum(coalesce(boosted_ns, 0)) / 1e6 AS boosted_ms,
    sum(coalesce(boost_saturated_ns, 0)) / 1e6 AS saturated_ms,
    sum(slowpath_wake_calls)::BIGINT AS slowpath_wake_calls,
    sum(coalesce(stalls, 0))::BIGINT AS stalls,
    sum(coalesce(stall_refusals, 0))::BIGINT AS stall_refusals
FROM counter
GROUP BY ts, node, zone
HAVING asks + slowpath_wake_calls + stalls > 0 OR boosted_ms > 0
ORDER BY ts, node, zone

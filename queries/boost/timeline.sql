-- When fallbacks asked for higher watermarks, and how long the zones stood higher.
--
-- A fallback into part of a pageblock raises its zone's watermarks, so that kswapd
-- reclaims and kcompactd makes whole blocks again (watermark_boost_factor, since 5.0).
-- Read `asks` first. Where the tape shows kswapd's passes, which take the boost back,
-- the boost acts in the replay too: `boosted_ms` is how long, `saturated` how many asks
-- found it as high as it may be; elsewhere both are 0 for want of an end.
--
-- Under the policy `stall`, `stalls` are the allocations that would have waited for
-- kswapd before they mixed migratetypes, `stall_refusals` the fallbacks refused them.
-- What kswapd would have done about all that is not modelled in R0.
--
-- Only for replayed tapes; intervals in which nothing of this happened are left out.
--
-- Tier: B
--
-- Columns:
--   at_s            DOUBLE     Seconds from the first interval to this one.
--   node            USMALLINT  NUMA node.
--   zone            VARCHAR    Zone.
--   asks            BIGINT     Boosts asked for.
--   saturated       BIGINT     Of these, when the boost was at its limit.
--   boosted_ms      DOUBLE     Time with raised watermarks.
--   saturated_ms    DOUBLE     Of that, raised as high as may be.
--   slowpath_wake_calls    BIGINT     Times an allocation would have woken kswapd.
--   stalls          BIGINT     Allocations that `stall` would have made wait.
--   stall_refusals  BIGINT     Fallbacks it would have refused.
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

-- Counters of the model, by zone. Only for replayed tapes.
--
-- Tier: B
--
-- Columns:
--   node                USMALLINT  NUMA node.
--   zone                VARCHAR    Zone.
--   allocs              BIGINT     Allocations served.
--   pcp_hits            BIGINT     Allocations from a per-CPU list that was not empty.
--   refills             BIGINT     Refills of a per-CPU list.
--   refill_pages        BIGINT     Pages moved by refills.
--   drains              BIGINT     Drains of a full per-CPU list.
--   drain_pages         BIGINT     Pages moved by drains.
--   lock_holds          BIGINT     Times the zone lock was taken.
--   fallback_claim      BIGINT     Fallbacks that changed the block's migratetype.
--   fallback_steal      BIGINT     Fallbacks that left a block mixed.
--   fallback_whole      BIGINT     Fallbacks of whole pageblocks.
--   nofragment_retries  BIGINT     Zonelist scans restarted with mixing allowed.
--   lower_zone          BIGINT     Allocations served by a lower zone than the preferred one.
--   remote_node         BIGINT     Allocations served by another node than the preferred one.
--   failed              BIGINT     Requests the model could not serve.
SELECT
    node,
    zone,
    sum(allocs)::BIGINT AS allocs,
    sum(pcp_hits)::BIGINT AS pcp_hits,
    sum(refills)::BIGINT AS refills,
    sum(refill_pages)::BIGINT AS refill_pages,
    sum(drains)::BIGINT AS drains,
    sum(drain_pages)::BIGINT AS drain_pages,
    sum(lock_holds)::BIGINT AS lock_holds,
    sum(fallback_claim)::BIGINT AS fallback_claim,
    sum(fallback_steal)::BIGINT AS fallback_steal,
    sum(fallback_whole)::BIGINT AS fallback_whole,
    sum(nofragment_retries)::BIGINT AS nofragment_retries,
    sum(lower_zone)::BIGINT AS lower_zone,
    sum(remote_node)::BIGINT AS remote_node,
    sum(failed)::BIGINT AS failed
FROM counter
GROUP BY node, zone
ORDER BY node, zone

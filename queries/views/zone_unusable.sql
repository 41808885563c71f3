-- Most free pages of each zone at a snapshot that kernel requests and kswapd do not count: CMA and HIGHATOMIC.
--
-- No event records them between snapshots: there this number is a bound for a zone whose reserves did not grow.
--
-- Columns:
--   tape   VARCHAR    Name of the tape.
--   node   USMALLINT  NUMA node.
--   zone   VARCHAR    Zone.
--   pages  BIGINT     Pages; null if a snapshot does not have the number.
SELECT
    z.tape,
    z.node,
    z.zone,
    if(bool_and(unusable_known(z, r.rq, r.m)), max(unusable_pages(z, r.rq, r.m)), NULL)::BIGINT AS pages
FROM zone_state AS z
JOIN (
    SELECT m.tape, m, alloc_request(gfp_mask(['IO', 'FS', 'DIRECT_RECLAIM', 'KSWAPD_RECLAIM']), 0, 'UNMOVABLE', false, m) AS rq
    FROM machine AS m
) AS r USING (tape)
WHERE z.snapshot IS NOT NULL
GROUP BY z.tape, z.node, z.zone

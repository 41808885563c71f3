-- Free memory that a request may use, by zone and class of request, at each snapshot.
--
-- Free memory is not memory for every request. Only MOVABLE requests may use CMA; only atomic ones may use the HIGHATOMIC
-- reserve; and a zone keeps its lowmem_reserve from requests that could take a higher zone. The kernel compares the rest,
-- `usable_pages`, with the min watermark, which it lowers for atomic requests (`needed_pages`). An order above 0 also needs a free block
-- of a migratetype that the request may take. The rules are those of the tape's kernel. Read `lacks` first.
--
-- Classes: `atomic` is GFP_ATOMIC, `kernel` GFP_KERNEL, `user` a page of a process (GFP_HIGHUSER_MOVABLE). A request fails only if every zone
-- that it may take lacks something. Zones that a class may not take have no row for it. Between snapshots a recording has no
-- free blocks by migratetype: see alloc.failures for the moments of failures.
--
-- Needs: zone
-- Tier: A
--
-- Parameters:
--   page_order  INTEGER 0..19 = 0  Order of the request.
--
-- Columns:
--   snapshot        USMALLINT  Number of the snapshot: 0 is the start, the largest is the end.
--   node            USMALLINT  NUMA node.
--   zone            VARCHAR    Zone.
--   class           VARCHAR    atomic, kernel or user.
--   free_pages      BIGINT     Free pages of the zone.
--   cma_pages       BIGINT     Of these, CMA pages that the class may not use; null if unknown.
--   reserve_pages   BIGINT     Of these, HIGHATOMIC pages that the class may not use; null if unknown.
--   lowmem_reserve  BIGINT     Pages that the zone keeps from the class.
--   usable_pages    BIGINT     free_pages less the three; negative if the zone lacks pages for its reserves.
--   at_most         BOOLEAN    A count is unknown: there are at most usable_pages.
--   needed_pages    BIGINT     usable_pages must be above this, and must have the request's own pages more.
--   block_pages     BIGINT     Free pages in blocks of at least that order that the class may take; null if unknown.
--   lacks           VARCHAR    nothing, memory or block; null if unknown.
WITH class AS (
    SELECT
        c.class,
        machine AS m,
        alloc_request(c.gfp_flags, $page_order, c.migratetype, h.has_highmem, machine) AS rq
    FROM machine
    CROSS JOIN (
        VALUES
        ('atomic', gfp_mask(['HIGH', 'KSWAPD_RECLAIM', 'ATOMIC']), 'UNMOVABLE'),
        ('kernel', gfp_mask(['IO', 'FS', 'DIRECT_RECLAIM', 'KSWAPD_RECLAIM']), 'UNMOVABLE'),
        ('user', gfp_mask(['IO', 'FS', 'DIRECT_RECLAIM', 'KSWAPD_RECLAIM', 'HARDWALL', 'HIGHMEM', 'MOVABLE']), 'MOVABLE')
    ) AS c (class, gfp_flags, migratetype)
    CROSS JOIN (SELECT coalesce(bool_or(has_highmem), false) AS has_highmem FROM zone_state) AS h
)

SELECT
    z.snapshot,
    z.node,
    z.zone,
    c.class,
    z.free AS free_pages,
    if(c.rq['movable'], 0, z.free_cma) AS cma_pages,
    CASE
        WHEN unusable_known(z, c.rq, c.m)
            THEN unusable_pages(z, c.rq, c.m) - if(c.rq['movable'], 0, coalesce(z.free_cma, 0))
    END::BIGINT AS reserve_pages,
    z.lowmem_reserve[c.rq['zone'] + 1] AS lowmem_reserve,
    usable_pages(z, c.rq, c.m) AS usable_pages,
    NOT unusable_known(z, c.rq, c.m) AS at_most,
    lowered_mark(z.wmark_min + if(c.rq['unboosted'], 0, coalesce(z.boost, 0)), c.rq, c.m) AS needed_pages,
    block_pages(z, c.rq) AS block_pages,
    shortage(z, c.rq, c.m) AS lacks
FROM zone_state AS z
CROSS JOIN class AS c
WHERE z.snapshot IS NOT NULL AND z.managed > 0 AND z.place <= c.rq['zone']
ORDER BY z.snapshot, z.node, z.place, c.class

-- Whether the kernel's last test of a zone passes for a request: the min watermark, as far as its pages go.
--
-- zone_watermark_fast with the rights of the slow path, without a look at the free blocks. For order 0 the quick test comes
-- first; up to 5.0 it counts HIGHATOMIC pages as free. Null if the request may not take the zone.
-- Arguments as of usable_pages. Unknown HIGHATOMIC and CMA pages count as usable.
CREATE TEMP MACRO above_min(z, rq, m) AS
CASE
    WHEN z['place'] <= rq['zone']
        THEN (
            rq['page_order'] = 0
            AND m['watermark'] <> 'WATERMARK_PER_ORDER'
            AND z['free'] - coalesce(z['lowmem_reserve'][rq['zone'] + 1], 0)
            - CASE
                WHEN m['fast_counts_highatomic'] THEN unusable_pages(z, rq, m)
                WHEN rq['movable'] THEN 0
                ELSE coalesce(z['free_cma'], 0)
            END
            > z['wmark_min'] + coalesce(z['boost'], 0)
        )
        OR leaves_mark(z, rq, m, z['wmark_min'] + coalesce(z['boost'], 0))
        OR (rq['unboosted'] AND coalesce(z['boost'], 0) > 0 AND leaves_mark(z, rq, m, z['wmark_min']))
END

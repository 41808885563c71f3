-- What a zone lacks for a request: nothing, memory or a block. Null if that is unknown.
--
-- `memory`: its usable pages do not leave the min watermark. `block`: they do, but no free block is large
-- enough and of a migratetype that the request may take: fragmentation. `nothing`: the zone can serve the request. Null also
-- if the request may not take the zone. Arguments as of usable_pages.
CREATE TEMP MACRO shortage(z, rq, m) AS
CASE
    WHEN NOT above_min(z, rq, m) OR usable_pages(z, rq, m) < 1::BIGINT << rq['page_order'] THEN 'memory'
    WHEN above_min(z, rq, m) AND block_pages(z, rq) = 0 THEN if(rq['page_order'] = 0, 'memory', 'block')
    WHEN above_min(z, rq, m) AND block_pages(z, rq) > 0 AND unusable_known(z, rq, m) THEN 'nothing'
END

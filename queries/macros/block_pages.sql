-- Free pages of a zone in blocks that are large enough for a request, and of a migratetype that it may take.
--
-- UNMOVABLE, MOVABLE, RECLAIMABLE and RESERVE serve every request, CMA only MOVABLE ones, HIGHATOMIC only those with
-- that right. Null if the migratetypes of the free blocks are unknown and matter. Arguments as of usable_pages.
CREATE TEMP MACRO block_pages(z, rq) AS
CASE
    WHEN coalesce(z['any_blocks'][rq['page_order'] + 1], 0) = 0 THEN if(z['any_blocks'] IS NULL, NULL, 0)
    WHEN z['common_blocks'] IS NOT NULL
        THEN coalesce(z['common_blocks'][rq['page_order'] + 1], 0)
            + if(rq['movable'], coalesce(z['cma_blocks'][rq['page_order'] + 1], 0), 0)
            + if(rq['highatomic'], coalesce(z['highatomic_blocks'][rq['page_order'] + 1], 0), 0)
    WHEN (rq['movable'] OR z['free_cma'] = 0) AND (rq['highatomic'] OR z['free_highatomic'] = 0)
        THEN z['any_blocks'][rq['page_order'] + 1]
END::BIGINT

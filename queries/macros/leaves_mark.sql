-- Whether a zone keeps more usable pages than a watermark after a request; its blocks are not looked at.
--
-- The part of __zone_watermark_ok that counts pages. Up to 2.6.33, pages in blocks below the order do not count, and for each order
-- the watermark is halved. Arguments as of usable_pages, and the watermark in pages, boost included.
CREATE TEMP MACRO leaves_mark(z, rq, m, mark) AS
CASE m['watermark']
    WHEN 'WATERMARK_PER_ORDER'
        THEN z['free'] - (1::BIGINT << rq['page_order']) + 1 - coalesce(z['lowmem_reserve'][rq['zone'] + 1], 0)
            > lowered_mark(mark, rq, m)
            AND coalesce(
                list_bool_and(
                    list_transform(
                        range(1, rq['page_order'] + 1),
                        lambda o: z['free'] - (1::BIGINT << rq['page_order']) + 1
                        - coalesce(z['any_blocks'][1] - coalesce(z['any_blocks'][o + 1], 0), 0)
                        > lowered_mark(mark, rq, m) >> o::INTEGER
                    )
                ),
                true
            )
    ELSE usable_pages(z, rq, m) - (1::BIGINT << rq['page_order']) + 1 > lowered_mark(mark, rq, m)
END

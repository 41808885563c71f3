-- A watermark as far as the rights of a request lower it (__zone_watermark_ok), before lowmem_reserve.
--
-- Arguments are the watermark in pages, a request (alloc_request) and a row of machine.
CREATE TEMP MACRO lowered_mark(mark, rq, m) AS
CASE
    WHEN rq['harder'] AND (rq['high'] OR m['watermark'] IN ('WATERMARK_HARDER', 'WATERMARK_PER_ORDER'))
        THEN if(rq['high'], mark - mark // 2, mark) - if(rq['high'], mark - mark // 2, mark) // 4
    WHEN rq['high'] THEN mark - mark // 2
    ELSE mark
END::BIGINT

-- Free pages of a zone that a request may not use (__zone_watermark_unusable_free): HIGHATOMIC and CMA.
--
-- Arguments are a row of the view zone_state, a request (alloc_request) and a row of machine. A request without a right to the
-- HIGHATOMIC reserve may not use it: up to 6.11 the whole reserve is subtracted, later its free pages. Only MOVABLE
-- requests may use CMA. Unknown counts count as 0: unusable_known says whether all are known.
CREATE TEMP MACRO unusable_pages(z, rq, m) AS
CASE
    WHEN rq['harder'] OR (m['watermark'] <> 'WATERMARK_HARDER' AND (rq['high'] OR rq['highatomic'])) THEN 0
    WHEN m['watermark'] = 'WATERMARK_GRADED_FREE' THEN coalesce(z['free_highatomic'], 0)
    ELSE coalesce(z['reserved_highatomic'], z['free_highatomic'], 0)
END
+ CASE WHEN rq['movable'] THEN 0 ELSE coalesce(z['free_cma'], 0) END

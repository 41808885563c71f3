-- Whether every count in unusable_pages is known.
--
-- If not, the zone has at most the usable_pages that are computed. Arguments as of unusable_pages.
CREATE TEMP MACRO unusable_known(z, rq, m) AS
CASE
    WHEN rq['harder'] OR (m['watermark'] <> 'WATERMARK_HARDER' AND (rq['high'] OR rq['highatomic'])) THEN true
    WHEN m['watermark'] = 'WATERMARK_GRADED_FREE' THEN z['free_highatomic'] IS NOT NULL
    ELSE z['reserved_highatomic'] IS NOT NULL
END
AND (rq['movable'] OR z['free_cma'] IS NOT NULL)

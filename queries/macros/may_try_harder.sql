-- Whether gfp flags give the right ALLOC_HARDER (up to 6.2) or ALLOC_NON_BLOCK.
--
-- See alloc_request. Arguments are the mask and a row of machine.
CREATE TEMP MACRO may_try_harder(gfp_flags, m) AS
NOT gfp_has(gfp_flags, 'DIRECT_RECLAIM')
AND (m['watermark'] = 'WATERMARK_PER_ORDER' OR NOT gfp_has(gfp_flags, 'NOMEMALLOC'))
AND (m['watermark'] <> 'WATERMARK_HARDER' OR gfp_has(gfp_flags, 'HIGH') OR gfp_has(gfp_flags, 'ATOMIC'))

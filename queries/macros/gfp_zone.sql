-- The highest zone that a request may take (gfp_zone, 5.10 to 7.3): its place in the enum of zones.
--
-- 0 is DMA, 2 is NORMAL, 4 is MOVABLE. Arguments are the request's gfp flags, and whether the machine has
-- a zone HIGHMEM: without it, HIGHMEM alone means NORMAL.
CREATE TEMP MACRO gfp_zone(gfp_flags, has_highmem) AS
CASE
    WHEN gfp_has(gfp_flags, 'DMA') THEN 0
    WHEN gfp_has(gfp_flags, 'DMA32') THEN 1
    WHEN gfp_has(gfp_flags, 'MOVABLE') AND gfp_has(gfp_flags, 'HIGHMEM') THEN 4
    WHEN has_highmem AND gfp_has(gfp_flags, 'HIGHMEM') THEN 3
    ELSE 2
END

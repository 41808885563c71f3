-- Whether gfp flags have a bit.
--
-- Arguments are the mask, of which null has no bit, and the bit's name without __GFP_.
CREATE TEMP MACRO gfp_has(gfp_flags, name) AS
coalesce(gfp_flags, 0) & gfp_mask([name]) <> 0

-- The effect of a fallback on the pageblock: whole, claim or steal, as in the view extfrag.
--
-- Arguments are the order of the free page taken, whether the block took the requested migratetype, and the order of a pageblock.
CREATE TEMP MACRO fallback_kind(fallback_order, change_ownership, pageblock_order) AS
CASE
    WHEN pageblock_order IS NULL THEN NULL
    WHEN fallback_order >= pageblock_order THEN 'whole'
    WHEN change_ownership THEN 'claim'
    ELSE 'steal'
END

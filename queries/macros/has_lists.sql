-- Whether blocks of an order have per-CPU lists: order 0; by most kernel rows also orders 1 to 3 and pageblocks.
--
-- Arguments are the order, the order of a pageblock, and the feature `pcp_lists` as in the view machine.
CREATE TEMP MACRO has_lists(page_order, pageblock_order, pcp_lists) AS
page_order = 0
OR (
    pcp_lists NOT IN ('PCP_LISTS_1', 'PCP_LISTS_3')
    AND (page_order <= 3 OR page_order IS NOT DISTINCT FROM pageblock_order)
)

-- Whether blocks of an order have per-CPU lists: order 0; since 5.14 also orders 1 to 3 and pageblocks.
--
-- Arguments are the order, the order of a pageblock, and the kernel's version as in the view machine:
-- null counts as since 5.14.
CREATE TEMP MACRO has_lists(page_order, pageblock_order, kernel_version) AS
page_order = 0
OR (
    coalesce(kernel_version, 5014) >= 5014
    AND (page_order <= 3 OR page_order IS NOT DISTINCT FROM pageblock_order)
)

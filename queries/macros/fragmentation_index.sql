-- The kernel's fragmentation index (mm/vmstat.c): -1000 if an allocation of the order succeeds.
--
-- Otherwise 0 to 1000: near 0 the allocation fails for lack of memory, near 1000 because of
-- fragmentation. Arguments are the order, a zone's free blocks and free pages, and the free pages
-- in blocks of the order or larger.
CREATE TEMP MACRO fragmentation_index(page_order, free_blocks, free_pages, usable_pages) AS
CASE
    WHEN free_blocks = 0 THEN 0
    WHEN usable_pages > 0 THEN -1000
    ELSE 1000 - (1000 + free_pages * 1000 // (1::BIGINT << page_order::INTEGER)) // free_blocks
END::BIGINT

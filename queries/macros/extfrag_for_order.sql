-- The kernel's external fragmentation for an order (mm/vmstat.c): percent of free pages unusable.
--
-- Arguments are a zone's free pages, and the free pages in blocks of the order or larger.
CREATE TEMP MACRO extfrag_for_order(free_pages, usable_pages) AS
CASE
    WHEN free_pages = 0 THEN 0
    ELSE (free_pages - usable_pages) * 100 // free_pages
END::BIGINT

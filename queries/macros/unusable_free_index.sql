-- The kernel's unusable free space index (mm/vmstat.c): 0 if all is usable, 1000 if nothing is.
--
-- Arguments are a zone's free pages, and the free pages in blocks of the order or larger.
CREATE TEMP MACRO unusable_free_index(free_pages, usable_pages) AS
CASE
    WHEN free_pages = 0 THEN 1000
    ELSE (free_pages - usable_pages) * 1000 // free_pages
END::BIGINT

-- Allocations by order and migratetype.
--
-- Needs: event.alloc
-- Tier: A
--
-- Columns:
--   page_order   UTINYINT  Requested order.
--   migratetype  VARCHAR   Requested migratetype.
--   nr           BIGINT    Allocations that got a page.
--   failed       BIGINT    Allocations that failed.
--   pages        BIGINT    Pages allocated.
SELECT
    page_order,
    migratetype,
    count(pfn) AS nr,
    count(*) - count(pfn) AS failed,
    count(pfn) << page_order::INTEGER AS pages
FROM event
WHERE kind = 'alloc'
GROUP BY page_order, migratetype
ORDER BY page_order, migratetype

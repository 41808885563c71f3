-- Allocations of each tape by order and migratetype.
--
-- Needs: event.alloc
--
-- Columns:
--   tape         BIGINT   Number of the tape.
--   page_order   INTEGER  Requested order.
--   migratetype  VARCHAR  Requested migratetype.
--   nr           BIGINT   Allocations that got a page.
--   failed       BIGINT   Allocations that failed.
--   pages        BIGINT   Pages allocated.
SELECT
    tape,
    page_order,
    migratetype,
    sum(events - without_page)::BIGINT AS nr,
    sum(without_page)::BIGINT AS failed,
    sum(events - without_page)::BIGINT << page_order AS pages
FROM fleet_event
WHERE kind = 'alloc'
GROUP BY ALL

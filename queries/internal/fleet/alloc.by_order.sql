-- Allocations of tapes by order and migratetype.
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
    events - without_page AS nr,
    without_page AS failed,
    (events - without_page) << page_order AS pages
FROM fleet_event
WHERE kind = 'alloc'

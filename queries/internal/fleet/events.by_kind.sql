-- Page events of each tape by kind.
--
-- Needs: event
--
-- Columns:
--   tape   BIGINT   Number of the tape.
--   kind   VARCHAR  Tracepoint name without the prefix mm_page_.
--   nr     BIGINT   Events.
--   pages  BIGINT   Pages of the events that have an order and a page.
SELECT
    tape,
    kind,
    sum(events)::BIGINT AS nr,
    sum((events - without_page) << page_order)::BIGINT AS pages
FROM fleet_event
GROUP BY ALL

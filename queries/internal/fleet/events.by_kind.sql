-- Page events of tapes by kind.
--
-- Needs: event
--
-- Columns:
--   tape   BIGINT   Number of the tape.
--   kind   VARCHAR  Tracepoint name without the prefix mm_page_.
--   nr     BIGINT   Events.
--   pages  BIGINT   Pages of the events that have an order and a page.
SELECT tape, kind, events AS nr, (events - without_page) << page_order AS pages FROM fleet_event

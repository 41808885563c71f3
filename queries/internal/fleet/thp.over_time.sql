-- Requests of pageblock order of tapes: asked for and served.
--
-- Needs: event.alloc
--
-- Columns:
--   tape    BIGINT  Number of the tape.
--   nr      BIGINT  Allocations of pageblock order.
--   served  BIGINT  Of these, allocations that got a block.
--   failed  BIGINT  Of these, allocations that got none.
SELECT tape, e.events AS nr, e.events - e.without_page AS served, e.without_page AS failed
FROM fleet_event AS e
JOIN fleet_tape AS t USING (tape)
WHERE e.kind = 'alloc' AND e.page_order = t.pageblock_order

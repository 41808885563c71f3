-- Pages in use at the end of the tape, by their last allocation, one row each.
--
-- These are the rows of the view page_use without an end. A command with several queries finds them once.
--
-- Columns:
--   tape          VARCHAR    Name of the tape.
--   pfn           UBIGINT    First page.
--   ts            UBIGINT    Allocation, trace clock in ns.
--   cpu           USMALLINT  CPU of the allocation.
--   pid           INTEGER    Thread that allocated.
--   page_order    UTINYINT   Requested order.
--   migratetype   VARCHAR    Requested migratetype.
SELECT tape, pfn, ts, cpu, pid, page_order, migratetype::VARCHAR AS migratetype
FROM sequence_page_in_use

-- Uses of MOVABLE pages, single or of pageblock order, one row each.
--
-- As page_use, but no other allocation begins or ends a use.
--
-- Columns:
--   tape        VARCHAR    Name of the tape.
--   pfn         UBIGINT    First page.
--   ts          UBIGINT    Allocation, trace clock in ns.
--   cpu         USMALLINT  CPU of the allocation.
--   page_order  UTINYINT   Requested order.
--   until_ts    UBIGINT    End; null: in use at the end of the tape.
SELECT tape, pfn, ts, cpu, page_order, until_ts
FROM sequence_movable_page_use
WHERE ts IS NOT NULL

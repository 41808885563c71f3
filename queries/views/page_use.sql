-- Uses of pages, one row each: from an allocation to the next event of the page.
--
-- A use ends with the page's free, or with an allocation of the same page if its free is not on the tape. A split huge
-- page ends with the free of its first page. A free without an allocation before it is a row without a begin.
-- Allocations that failed have no page.
--
-- Columns:
--   tape          VARCHAR    Name of the tape.
--   pfn           UBIGINT    First page.
--   ts            UBIGINT    Allocation, trace clock in ns; null: it is not on the tape.
--   cpu           USMALLINT  CPU of the allocation.
--   pid           INTEGER    Thread that allocated.
--   page_order    UTINYINT   Requested order.
--   migratetype   VARCHAR    Requested migratetype.
--   until_ts      UBIGINT    End; null: in use at the end of the tape.
--   freed         BOOLEAN    A free ended it, otherwise an allocation; null: in use at the end.
--   freed_before  BOOLEAN    Of a use without a begin: the page was freed on the tape before.
SELECT tape, pfn, ts, cpu, pid, page_order, migratetype::VARCHAR AS migratetype, until_ts, freed, freed_before
FROM sequence_page_use

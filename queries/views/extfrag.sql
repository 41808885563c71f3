-- Fallbacks: free pages taken from another migratetype's list, one row each.
--
-- `kind` is the effect of the fallback on the pageblock:
--
--   whole  the free page was a pageblock or larger: the block changed migratetype, nothing mixes
--   claim  it was smaller, and the block took the requested migratetype
--   steal  it was smaller, and the block did not change: two migratetypes now share it
--
-- Both `kind` and `below_pageblock` are unknown if the tape lacks the pageblock order.
--
-- Rows: few
--
-- Columns:
--   tape                  VARCHAR   Name of the tape.
--   ts                    UBIGINT   Trace clock, ns.
--   cpu                   USMALLINT  CPU.
--   pid                   INTEGER   Running thread.
--   flags                 UTINYINT  Context bits; see context_names().
--   pfn                   UBIGINT   The page allocated; before 6.10 the first page of the free page found.
--   alloc_order           UTINYINT  Requested order.
--   fallback_order        UTINYINT  Order of the free page taken.
--   alloc_migratetype     VARCHAR   Requested migratetype.
--   fallback_migratetype  VARCHAR   Migratetype of the free list that lost the page.
--   kind                  VARCHAR   whole, claim or steal.
--   below_pageblock       BOOLEAN   fallback_order < pageblock_order; the kernel prints it as fragmenting.
SELECT
    e.* REPLACE (fallback_kind(e.fallback_order, e.change_ownership, m.pageblock_order) AS kind),
    e.page_order AS alloc_order,
    e.migratetype AS alloc_migratetype,
    e.fallback_order < m.pageblock_order AS below_pageblock
FROM sequence_rare_event AS e
JOIN machine AS m USING (tape)
WHERE e.kind = 'alloc_extfrag'

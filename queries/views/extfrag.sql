-- Fallbacks: free pages taken from another migratetype's list, one row each.
--
-- `kind` says what the fallback did to the pageblock:
--
--   whole  the free page was a pageblock or larger: it changed owner, nothing mixes
--   claim  it was smaller, and the block took the migratetype asked for
--   steal  it was smaller, and the block kept its owner: two migratetypes now share it
--
-- Both `kind` and `below_pageblock` are unknown where the tape does not say how large
-- a pageblock is.
--
-- Columns:
--   tape                  VARCHAR   Name of the tape.
--   ts                    UBIGINT   Trace clock, ns.
--   cpu                   USMALLINT  CPU.
--   pid                   INTEGER   Thread that ran.
--   flags                 UTINYINT  Context bits; see context_names().
--   pfn                   UBIGINT   The page allocated; before 6.10 the first page of the free page found.
--   alloc_order           UTINYINT  Order asked for.
--   fallback_order        UTINYINT  Order of the free page that was taken.
--   alloc_migratetype     VARCHAR   Migratetype asked for.
--   fallback_migratetype  VARCHAR   Migratetype of the list raided.
--   kind                  VARCHAR   whole, claim or steal.
--   below_pageblock       BOOLEAN   fallback_order < pageblock_order; the kernel prints it as fragmenting.
SELECT
    e.tape,
    e.ts,
    e.cpu,
    e.pid,
    e.flags,
    e.pfn,
    e.page_order AS alloc_order,
    e.fallback_order,
    e.migratetype AS alloc_migratetype,
    e.fallback_migratetype,
    CASE
        WHEN m.pageblock_order IS NULL THEN NULL
        WHEN e.fallback_order >= m.pageblock_order THEN 'whole'
        WHEN e.change_ownership THEN 'claim'
        ELSE 'steal'
    END AS kind,
    e.fallback_order < m.pageblock_order AS below_pageblock
FROM event AS e
JOIN machine AS m USING (tape)
WHERE e.kind = 'alloc_extfrag'

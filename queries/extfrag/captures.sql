-- Captures by compaction that the kernel reports as fallbacks.
--
-- While a task compacts for its request, the allocator hands it a page of that order as soon
-- as the page is freed. Since 6.15 the kernel emits mm_page_alloc_extfrag if
-- that page had another migratetype. Such an event lies between
-- mm_compaction_begin and mm_compaction_end of a direct run of the same thread and has
-- alloc_order = fallback_order; the report requires both. The report is empty if the kernel
-- is older or unknown, or if compaction was not recorded.
--
-- Events: whole
-- Tier: B
--
-- Columns:
--   alloc_migratetype     VARCHAR   Requested migratetype.
--   fallback_migratetype  VARCHAR   Migratetype of the captured page.
--   alloc_order           UTINYINT  Order of the compaction.
--   kind                  VARCHAR   Kind under which the fallback reports count the event.
--   nr                    BIGINT    Number of captures.
SELECT
    f.alloc_migratetype,
    f.fallback_migratetype,
    f.alloc_order,
    f.kind,
    count(*) AS nr
FROM extfrag AS f
ASOF JOIN (FROM compaction_run WHERE who = 'direct' AND from_ts IS NOT NULL) AS c
    ON c.tape = f.tape
    AND c.pid = f.pid
    AND f.ts >= c.from_ts
JOIN machine AS m ON m.tape = f.tape
WHERE f.ts <= coalesce(c.until_ts, f.ts)
  AND f.alloc_order = f.fallback_order
  AND m.kernel_row IS NOT NULL
  AND m.capture = 'CAPTURE_TRACED'
GROUP BY ALL
ORDER BY nr DESC, alloc_migratetype, fallback_migratetype, alloc_order, f.kind

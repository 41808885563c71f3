-- Fallback events that are captures by compaction, not fallbacks.
--
-- While a task compacts for an order, a page of that order freed under its eyes
-- is handed to it at once. Since 6.15 the kernel prints mm_page_alloc_extfrag when
-- that page was of another migratetype. Such an event lies between
-- mm_compaction_begin and mm_compaction_end of the same thread and has
-- alloc_order = fallback_order; both must hold here. No rows where the kernel is
-- older or unknown, or where compaction was not recorded.
--
-- Tier: B
--
-- Columns:
--   alloc_migratetype     VARCHAR   Migratetype wanted.
--   fallback_migratetype  VARCHAR   Migratetype of the page captured.
--   alloc_order           UTINYINT  Order compacted for.
--   kind                  VARCHAR   How the fallback reports count it.
--   nr                    BIGINT    How many times.
WITH edge AS (
    SELECT tape, pid, ts, kind
    FROM compaction
    WHERE kind IN ('begin', 'end')
)

SELECT
    f.alloc_migratetype,
    f.fallback_migratetype,
    f.alloc_order,
    f.kind,
    count(*) AS nr
FROM extfrag AS f
ASOF JOIN edge
    ON edge.tape = f.tape
    AND edge.pid = f.pid
    AND f.ts >= edge.ts
JOIN machine AS m ON m.tape = f.tape
WHERE edge.kind = 'begin'
  AND f.alloc_order = f.fallback_order
  AND m.kernel_version >= 6015
GROUP BY ALL
ORDER BY nr DESC, alloc_migratetype, fallback_migratetype, alloc_order, f.kind

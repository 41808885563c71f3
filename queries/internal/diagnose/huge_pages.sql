-- Requests for huge pages, and what compaction did for them.
--
-- Events count every request of pageblock order, from page faults and from the kernel. The
-- counters of /proc/vmstat count page faults only: see diagnose.counters.
--
-- Columns:
--   requests     BIGINT  Allocations of pageblock order.
--   failed       BIGINT  Of these, allocations that failed.
--   deferred     BIGINT  Compactions skipped after too many failures.
--   asked        BIGINT  Allocations that asked for direct compaction.
WITH wanted AS (
    SELECT count(*) AS requests, count(*) FILTER (e.pfn IS NULL) AS failed
    FROM event AS e
    JOIN machine AS m USING (tape)
    WHERE e.kind = 'alloc' AND e.page_order = m.pageblock_order
),

compact AS (
    SELECT
        count(*) FILTER (kind = 'deferred') AS deferred,
        count(*) FILTER (kind = 'try_to_compact_pages') AS asked
    FROM compaction
    WHERE kind IN ('deferred', 'try_to_compact_pages')
)

SELECT w.requests, w.failed, c.deferred, c.asked
FROM wanted AS w, compact AS c

-- Free pages of each zone at every event that changes them, one row each.
--
-- The count goes from one reading to the next: a snapshot, or a sample of /proc. A sample is the sum of the free
-- lists, which the kernel prints under the zone's lock; the counter in zoneinfo, which lacks what CPUs have not
-- folded in yet, is used only where the tape has no lists. Samples whose files share one stamp are left out.
--
-- In between, these pages leave the count: of alloc_zone_locked; of fallbacks that take a page without that event
-- (__rmqueue_fallback since 6.10); those that compaction isolates as targets, if its events are on the tape; and those
-- that a task which compacts captures as they become free (__free_one_page, compaction_capture, since 5.1). Those of
-- pcpu_drain and of frees past the per-CPU lists join it. Other isolation moves free pages without an event:
-- `error_pages` is what the count has too many at the next reading. It grows from 0 between the two readings. A
-- snapshot of unknown time counts as taken at the first event of the tape, or at the last.
--
-- Columns:
--   tape         VARCHAR    Name of the tape.
--   node         USMALLINT  NUMA node.
--   zone         VARCHAR    Zone.
--   ts           UBIGINT    Trace clock, ns.
--   free_pages   BIGINT     Free pages after the event; per-CPU lists are not free.
--   reading      BOOLEAN    The row is a reading, not an event.
--   error_pages  BIGINT     Error at the next reading, in pages; null after the last one, and without page events.
WITH reading AS (
    SELECT
        z.tape,
        z.node,
        z.zone::VARCHAR AS zone,
        CASE WHEN z.ts > 0 THEN z.ts WHEN z.snapshot = 0 THEN m.start_ts ELSE m.end_ts END AS ts,
        z.free::BIGINT AS free
    FROM zone AS z
    JOIN machine AS m USING (tape)
    WHERE z.ts > 0 OR m.start_ts IS NOT NULL
    UNION ALL
    SELECT tape, node, zone::VARCHAR, ts, sum(nr_free << page_order::INTEGER)::BIGINT
    FROM free_count
    WHERE began IS NOT NULL
    GROUP BY ALL
    UNION ALL
    SELECT tape, node, zone::VARCHAR, ts, value
    FROM sample
    WHERE name = 'free' AND zone IS NOT NULL AND began IS NOT NULL
      AND tape NOT IN (SELECT DISTINCT tape FROM free_count WHERE began IS NOT NULL)
),

-- Fallbacks that no alloc_zone_locked of the same page precedes on their CPU.
alone AS (
    SELECT m.tape, f.ts, f.pfn, f.page_order
    FROM (
        SELECT
            place,
            ts,
            taken,
            pfn,
            page_order,
            lag(taken) OVER its AND lag(pfn) OVER its = pfn AS known
        FROM (
            SELECT m.place, e.cpu, e.ts, e.kind = 'alloc_zone_locked' AS taken, e.pfn, e.page_order
            FROM event AS e
            JOIN machine AS m USING (tape)
            WHERE e.kind IN ('alloc_zone_locked', 'alloc_extfrag') AND m.fallback_unit = 'page'
        )
        WINDOW its AS (PARTITION BY place, cpu ORDER BY ts)
    ) AS f
    JOIN machine AS m USING (place)
    WHERE NOT f.taken AND NOT coalesce(f.known, false)
),

-- Blocks that a request gets although they were on no list: their parts were freed, and the block was not taken from
-- the zone. A block that per-CPU lists can hold may come from one, unless it was in use or drained before, or unless
-- the exact start has the lists' pages and not this one.
captured AS (
    SELECT tape, ts, pfn, page_order
    FROM (
        SELECT
            e.tape,
            e.ts,
            e.kind,
            e.pfn,
            e.page_order,
            has_lists(e.page_order, m.pageblock_order, m.pcp_lists) AS lists,
            coalesce(lag(e.kind::VARCHAR) OVER (PARTITION BY e.tape, e.pfn, e.page_order ORDER BY e.ts), '') AS last_kind
        FROM event AS e
        JOIN machine AS m USING (tape)
        WHERE e.page_order BETWEEN 1 AND 19
          AND e.kind IN ('alloc', 'free', 'alloc_zone_locked', 'alloc_extfrag', 'pcpu_drain')
          AND e.tape IN (SELECT DISTINCT tape FROM compaction)
    )
    LEFT JOIN (SELECT tape, pfn, page_order, true AS listed FROM pcp_page WHERE snapshot = 0)
        USING (tape, pfn, page_order)
    WHERE kind = 'alloc' AND pfn IS NOT NULL
      AND CASE
          WHEN NOT lists THEN last_kind NOT IN ('alloc_zone_locked', 'alloc_extfrag')
          WHEN last_kind <> '' THEN last_kind IN ('alloc', 'pcpu_drain')
          ELSE listed IS NULL AND tape IN (SELECT tape FROM snapshot WHERE snapshot = 0 AND how = 'exact')
      END
),

-- Kernels without mm_compaction_fast_isolate_freepages find some targets without an event. A run that has moved more
-- pages than it was seen to isolate targets for (`short`) has isolated the others before.
run AS (
    SELECT *, count(*) FILTER (kind = 'begin') OVER (PARTITION BY tape, pid ORDER BY ts, "at") AS number
    FROM compaction
    WHERE kind IN ('begin', 'isolate_freepages', 'migratepages')
      AND tape NOT IN (SELECT tape FROM tracepoint WHERE name = 'mm_compaction_fast_isolate_freepages')
),

target AS (
    SELECT
        *,
        first_value(start_pfn) OVER its AS pfn,
        sum(if(kind = 'migratepages', nr_migrated, -coalesce(nr_taken, 0)::BIGINT)) OVER its AS short
    FROM run
    WHERE number > 0
    WINDOW its AS (PARTITION BY tape, pid, number ORDER BY ts, "at")
),

unseen AS (
    SELECT tape, ts, pfn, most - coalesce(lag(most) OVER (PARTITION BY tape, pid, number ORDER BY ts, "at"), 0) AS pages
    FROM (
        SELECT *, greatest(max(short) OVER (PARTITION BY tape, pid, number ORDER BY ts, "at"), 0)::BIGINT AS most
        FROM target
    )
),

-- A target that compaction does not use, or a page that it moved away, comes back by a free.
step AS (
    SELECT
        e.tape,
        e.ts,
        e.pfn,
        if(e.kind = 'alloc_zone_locked', -1, 1) * (1::BIGINT << e.page_order::INTEGER) AS pages
    FROM event AS e
    JOIN machine AS m USING (tape)
    WHERE e.page_order < 20
      AND (
            e.kind IN ('alloc_zone_locked', 'pcpu_drain')
            OR (e.kind = 'free' AND NOT has_lists(e.page_order, m.pageblock_order, m.pcp_lists))
      )
    UNION ALL
    SELECT tape, ts, pfn, -(1::BIGINT << page_order::INTEGER)
    FROM (FROM alone UNION ALL FROM captured)
    WHERE page_order < 20
    UNION ALL
    SELECT tape, ts, start_pfn, -nr_taken::BIGINT
    FROM compaction
    WHERE kind IN ('isolate_freepages', 'fast_isolate_freepages') AND nr_taken > 0
    UNION ALL
    SELECT tape, ts, pfn, -pages
    FROM unseen
    WHERE pages > 0
),

-- Numbers instead of names: there may be 10^8 rows.
place AS MATERIALIZED (
    SELECT tape, node, zone, row_number() OVER ()::INTEGER AS id
    FROM (
        SELECT tape, node, zone FROM reading
        UNION
        SELECT tape, node, zone::VARCHAR FROM zone WHERE snapshot = 0
    )
),

moved AS (
    SELECT p.id, s.ts, s.pages
    FROM step AS s
    JOIN (
        SELECT p.id, z.tape, z.start_pfn, z.start_pfn + z.spanned AS end_pfn
        FROM zone AS z
        JOIN place AS p ON p.tape = z.tape AND p.node = z.node AND p.zone = z.zone::VARCHAR
        WHERE z.snapshot = 0
    ) AS p
        ON p.tape = s.tape
        AND s.pfn >= p.start_pfn
        AND s.pfn < p.end_pfn
),

summed AS MATERIALIZED (
    SELECT
        id,
        ts,
        free,
        sum(pages) OVER its AS total,
        count(free) OVER its AS number,
        count(free) OVER every < count(*) OVER every AS counted
    FROM (
        SELECT p.id, r.ts, r.free, 0 AS pages FROM reading AS r JOIN place AS p USING (tape, node, zone)
        UNION ALL
        SELECT id, ts, NULL, pages FROM moved
    )
    WINDOW
        its AS (PARTITION BY id ORDER BY ts, free IS NULL ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW),
        every AS (PARTITION BY id ORDER BY ts, free IS NULL ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
),

begun AS (
    SELECT
        *,
        CASE
            WHEN bool_or(counted) OVER (PARTITION BY tape)
                THEN lead(total) OVER its - total - (lead(free) OVER its - free)
        END AS error_pages
    FROM (
        SELECT p.tape, p.node, p.zone, s.id, s.number, s.free, s.total, s.counted
        FROM summed AS s
        JOIN place AS p USING (id)
        WHERE s.free IS NOT NULL
    )
    WINDOW its AS (PARTITION BY id ORDER BY number)
)

SELECT
    b.tape,
    b.node,
    b.zone,
    s.ts,
    (b.free + s.total - b.total)::BIGINT AS free_pages,
    s.free IS NOT NULL AS reading,
    b.error_pages::BIGINT AS error_pages
FROM summed AS s
JOIN begun AS b USING (id, number)

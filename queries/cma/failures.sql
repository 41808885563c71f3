-- Ranges that a request for contiguous memory could not empty, and who holds their pages.
--
-- One row is one holder of pages in one failed range: a range of a CMA area (cma_alloc_busy_retry), or a range
-- of alloc_contig_range or memory offlining whose check failed (test_pages_isolated). The holder of a page is
-- the task of its last allocation before the failure, if no free followed. `[unknown]` are pages without an
-- event: in use since before the tape, moved there by compaction, or free all the time.
--
-- Read `holds_busy` first: the kernel's check stopped at that page. A range that was given up before the check
-- (a page that can never move) has none. Events do not show pins: a MOVABLE page that did not move was
-- pinned (get_user_pages, DMA), under writeback, or locked. Only the first ranges are shown, see `top`.
--
-- Needs: compaction.test_pages_isolated
-- Events: whole
-- Tier: -
--
-- Parameters:
--   top  BIGINT 0..1000000 = 25  Maximum number of ranges, the earliest first.
--
-- Columns:
--   at_s         DOUBLE   Time of the failure, seconds after the tape's first event.
--   comm         VARCHAR  Thread that asked for the range, or its pid.
--   kind         VARCHAR  cma_alloc_busy_retry or test_pages_isolated.
--   pfn          UBIGINT  First pfn of the range.
--   nr_pages     BIGINT   Pages of the range.
--   holder       VARCHAR  Task that allocated the pages, or its pid; [unknown] without an event.
--   cgroup       VARCHAR  Its control group, if known.
--   migratetype  VARCHAR  Migratetype of its requests; null for [unknown].
--   pages        BIGINT   Pages of the range that it holds.
--   held_since_s DOUBLE   Oldest of these allocations, seconds after the tape's first event.
--   holds_busy   BOOLEAN  It holds the page at which the check stopped; null if the range was not checked.
WITH range_failed AS MATERIALIZED (
    SELECT
        row_number() OVER (ORDER BY c.ts, c.cpu, c.start_pfn) AS number,
        c.tape,
        c.ts,
        c.pid,
        c.kind,
        c.start_pfn AS pfn,
        if(c.kind = 'test_pages_isolated', c.end_pfn, c.start_pfn + c.nr_pages) AS end_pfn,
        if(c.kind = 'test_pages_isolated', c.fin_pfn, NULL) AS busy_pfn
    FROM compaction AS c
    WHERE c.start_pfn IS NOT NULL
      AND (
          (c.kind = 'cma_alloc_busy_retry' AND c.nr_pages > 0)
          OR (c.kind = 'test_pages_isolated' AND c.fin_pfn < c.end_pfn)
      )
    QUALIFY number <= $top::BIGINT
),

covered AS (
    SELECT
        r.*,
        unnest(range(
            (r.pfn >> m.pageblock_order)::BIGINT,
            least((r.end_pfn - 1) >> m.pageblock_order, (r.pfn >> m.pageblock_order) + 1048576)::BIGINT + 1
        )) AS block
    FROM range_failed AS r
    JOIN machine AS m USING (tape)
    WHERE r.end_pfn > r.pfn
),

-- No page of the buddy allocator crosses the bounds of the range's pageblocks.
last_event AS (
    SELECT
        c.number,
        e.pfn,
        arg_max(e.kind, e.ts) AS kind,
        arg_max(e.pid, e.ts) AS pid,
        arg_max(e.migratetype::VARCHAR, e.ts) AS migratetype,
        1::BIGINT << least(arg_max(e.page_order, e.ts)::INTEGER, 20) AS size,
        max(e.ts) AS ts
    FROM event AS e
    JOIN machine AS m ON m.tape = e.tape
    JOIN covered AS c ON c.tape = e.tape AND c.block = (e.pfn >> m.pageblock_order)::BIGINT
    WHERE e.kind IN ('alloc', 'free') AND e.ts <= c.ts
    GROUP BY c.number, e.pfn
),

seen AS (
    SELECT
        l.*,
        r.tape,
        greatest(
            least(l.pfn::BIGINT + l.size, r.end_pfn::BIGINT) - greatest(l.pfn::BIGINT, r.pfn::BIGINT), 0
        )::BIGINT AS pages,
        r.busy_pfn BETWEEN l.pfn AND l.pfn + l.size - 1 AS busy
    FROM last_event AS l
    JOIN range_failed AS r USING (number)
),

holder AS (
    SELECT
        s.number,
        coalesce(t.comm, s.pid::VARCHAR) AS holder,
        any_value(t.cgroup) AS cgroup,
        s.migratetype,
        sum(s.pages)::BIGINT AS pages,
        min(s.ts) AS since_ts,
        bool_or(s.busy) AS holds_busy
    FROM seen AS s
    LEFT JOIN task AS t ON t.tape = s.tape AND t.pid = s.pid
    WHERE s.kind = 'alloc' AND s.pages > 0
    GROUP BY s.number, coalesce(t.comm, s.pid::VARCHAR), s.migratetype
),

every AS (
    SELECT * FROM holder
    UNION ALL
    SELECT
        r.number,
        '[unknown]',
        NULL,
        NULL,
        greatest((r.end_pfn - r.pfn)::BIGINT - coalesce(sum(s.pages), 0), 0)::BIGINT AS rest,
        NULL,
        if(r.busy_pfn IS NULL, NULL, NOT coalesce(bool_or(s.busy), false))
    FROM range_failed AS r
    LEFT JOIN seen AS s USING (number)
    GROUP BY r.number, r.pfn, r.end_pfn, r.busy_pfn
    HAVING rest > 0
)

SELECT
    h.*,
    round((r.ts::BIGINT - m.start_ts::BIGINT) / 1e9, 3) AS at_s,
    coalesce(t.comm, r.pid::VARCHAR) AS comm,
    r.kind::VARCHAR AS kind,
    r.pfn,
    (r.end_pfn - r.pfn)::BIGINT AS nr_pages,
    round((h.since_ts::BIGINT - m.start_ts::BIGINT) / 1e9, 3) AS held_since_s
FROM range_failed AS r
JOIN machine AS m ON m.tape = r.tape
JOIN every AS h USING (number)
LEFT JOIN task AS t ON t.tape = r.tape AND t.pid = r.pid
ORDER BY r.number, h.holds_busy DESC NULLS LAST, h.pages DESC, h.holder, h.migratetype

-- Use of the pages of each pageblock, at the snapshots that record it.
--
-- Sources: exact snapshots that could also read /proc/kpageflags, and the model's end state.
-- A page of a recording is movable if it is on an LRU list, by the kernel's rule for
-- claiming a pageblock. The recorder reads the flags page by page: after the lists at the start
-- of a recording, before them at its end (`flags_ts`). A block of which a page was allocated or
-- freed between the two has an unknown content at the instant of the lists (`ts`), unless it
-- was mixed whatever became of these pages. Where no events show that, a block is unknown if its
-- number of free pages changed; a tape of an older recorder says neither. Pages on per-CPU
-- lists are free.
--
-- `content` is `free` (no used page), `movable` (only movable used pages), `fixed`
-- (used pages, none movable), `mixed`, or `unknown`. Only the first two can become a huge page.
--
-- Rows: few
--
-- Columns:
--   tape           VARCHAR    Name of the tape.
--   snapshot       USMALLINT  Number of the snapshot: 0 is the start, the largest is the end.
--   node           USMALLINT  NUMA node.
--   zone           VARCHAR    Zone.
--   pfn            UBIGINT    First pfn of the pageblock.
--   migratetype    VARCHAR    Migratetype of the pageblock.
--   free_pages     BIGINT     Free pages.
--   movable_pages  BIGINT     Used pages that are movable; null if unknown.
--   fixed_pages    BIGINT     All other pages: kernel pages, holes, and pages of unknown type; null if unknown.
--   content        VARCHAR    free, movable, fixed, mixed or unknown.
--   ts             UBIGINT    Trace clock of the lists, ns.
--   flags_ts       UBIGINT    Trace clock of the reading of the flags, ns; null if not recorded.
WITH free AS (
    SELECT tape, snapshot, node, zone, number, pages FROM block_free WHERE exact
),

-- The time between the lists and the flags, where the tape has every event of it.
between AS (
    SELECT
        b.tape,
        b.snapshot,
        least(any_value(b.ts), any_value(b.flags_ts)) AS from_ts,
        greatest(any_value(b.ts), any_value(b.flags_ts)) AS to_ts
    FROM pageblock AS b
    JOIN machine AS m USING (tape)
    WHERE
        b.flags_ts IS NOT NULL
        AND b.flags_ts BETWEEN m.start_ts AND m.end_ts
        AND CASE WHEN b.snapshot = 0 THEN b.flags_ts >= b.ts ELSE b.flags_ts <= b.ts END
        AND NOT m.replayed
        AND b.tape NOT IN (SELECT tape FROM lost)
        AND b.tape IN (
            SELECT tape FROM tracepoint
            WHERE name = 'mm_page_free' AND events > 0 AND stored IS NOT NULL
        )
    GROUP BY b.tape, b.snapshot
),

-- Pages of each block that were allocated or freed in that time.
touched AS (
    SELECT tape, snapshot, number, sum(pages) AS pages
    FROM (
        SELECT
            e.tape,
            n.snapshot,
            unnest(range(
                (e.pfn >> m.pageblock_order)::BIGINT,
                ((e.pfn + (1 << e.page_order::INTEGER) - 1) >> m.pageblock_order)::BIGINT + 1
            )) AS number,
            1 << least(e.page_order::INTEGER, m.pageblock_order) AS pages
        FROM sequence_event_near_snapshot AS e
        JOIN between AS n ON n.tape = e.tape AND e.ts >= n.from_ts AND e.ts <= n.to_ts
        JOIN machine AS m ON m.tape = e.tape
        WHERE e.kind IN ('alloc', 'free') AND e.pfn IS NOT NULL AND e.page_order < 20
    )
    GROUP BY tape, snapshot, number
),

used AS (
    SELECT
        b.tape,
        b.snapshot,
        b.node,
        b.zone,
        b.pfn,
        b.migratetype,
        coalesce(f.pages, 0) AS free_pages,
        least(b.nr_movable, (1 << m.pageblock_order) - free_pages)::BIGINT AS movable_pages,
        ((1 << m.pageblock_order) - free_pages - movable_pages)::BIGINT AS fixed_pages,
        if(n.tape IS NULL, b.stable IS DISTINCT FROM false, t.number IS NULL) AS known,
        coalesce(t.pages, 0) AS touched,
        b.ts,
        b.flags_ts
    FROM pageblock AS b
    JOIN machine AS m USING (tape)
    LEFT JOIN free AS f
        ON f.tape = b.tape
        AND f.snapshot = b.snapshot
        AND f.node = b.node
        AND f.zone = b.zone
        AND f.number = (b.pfn >> m.pageblock_order)::BIGINT
    LEFT JOIN between AS n ON n.tape = b.tape AND n.snapshot = b.snapshot
    LEFT JOIN touched AS t
        ON t.tape = b.tape
        AND t.snapshot = b.snapshot
        AND t.number = (b.pfn >> m.pageblock_order)::BIGINT
    WHERE b.nr_movable IS NOT NULL
      AND (b.tape, b.snapshot, b.node, b.zone) IN (SELECT (tape, snapshot, node, zone) FROM free)
),

judged AS (
    SELECT
        *,
        CASE
            WHEN touched > 0 AND least(movable_pages, fixed_pages) > touched THEN 'mixed'
            WHEN NOT known THEN 'unknown'
            WHEN movable_pages = 0 AND fixed_pages = 0 THEN 'free'
            WHEN fixed_pages = 0 THEN 'movable'
            WHEN movable_pages = 0 THEN 'fixed'
            ELSE 'mixed'
        END AS content
    FROM used
)

SELECT
    * REPLACE (
        CASE WHEN content <> 'unknown' THEN movable_pages END AS movable_pages,
        CASE WHEN content <> 'unknown' THEN fixed_pages END AS fixed_pages
    )
FROM judged

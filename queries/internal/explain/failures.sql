-- Failed requests with the state of each zone: a row for each request and zone, the first requests of the tape.
--
-- The state is the reading nearest in time: a snapshot or a sample. Free pages at the moment of the failure are counted from the
-- page events, where the tape has those. A tape without a reading has one row for each request, without a zone.
--
-- Needs: event.alloc
--
-- Parameters:
--   most  BIGINT 1..1000000 = 1000  Largest number of requests.
--
-- Columns:
--   number               BIGINT     Number of the request, from 1.
--   total                BIGINT     Failed requests of the tape.
--   at_s                 DOUBLE     Seconds after the tape's first event.
--   comm                 VARCHAR    Thread, or its pid if the name is unknown.
--   page_order           INTEGER    Requested order.
--   migratetype          VARCHAR    Requested migratetype.
--   gfp                  VARCHAR    Names of the gfp flags, joined by a bar.
--   by_recorder          BOOLEAN    The recorder's own request.
--   lacks                VARCHAR    memory or block, as the view failed_alloc judges; null if unknown.
--   home                 BIGINT     Node of its CPU; null if unknown.
--   nodes                BIGINT     Nodes of the machine.
--   marks_change         BOOLEAN    The watermarks change during the recording.
--   has_highmem          BOOLEAN    The machine has a zone HIGHMEM.
--   state_s              DOUBLE     Time of the reading, seconds after the tape's first event.
--   snapshot             USMALLINT  Number of its snapshot; null for a sample.
--   node                 USMALLINT  NUMA node of the zone.
--   zone                 VARCHAR    Zone.
--   managed              BIGINT     Pages that the allocator manages.
--   free                 BIGINT     Free pages at the reading.
--   wmark_min            BIGINT     Min watermark without the boost, in pages.
--   wmark_low            BIGINT     Low watermark, in pages.
--   wmark_high           BIGINT     High watermark, in pages.
--   boost                BIGINT     Boost at the reading; null if unknown.
--   most_boost           BIGINT     Largest boost of the zone on the tape.
--   lowmem_reserve       BIGINT[]   Pages withheld from requests whose highest zone is the 1st, 2nd ...
--   reserved_highatomic  BIGINT     Pages in HIGHATOMIC pageblocks; null if unknown.
--   free_highatomic      BIGINT     Free pages among them; null if unknown.
--   free_cma             BIGINT     Free CMA pages; null if unknown.
--   any_blocks           BIGINT[]   Free pages in blocks of at least order 0, 1 ...; null if unknown.
--   common_blocks        BIGINT[]   The same of types that any request may take; null if the types are unknown.
--   cma_blocks           BIGINT[]   The same of CMA.
--   highatomic_blocks    BIGINT[]   The same of HIGHATOMIC.
--   counted              BIGINT     Free pages at the failure; null if not counted.
--   error_pages          BIGINT     Error of that count at the next reading; null after the last one.
--   widest_pages         BIGINT     Largest error of the zone at any reading; null without an error.
WITH failed AS MATERIALIZED (
    SELECT
        row_number() OVER (ORDER BY ts, cpu, pid, page_order DESC) AS number,
        count(*) OVER () AS total,
        *
    FROM failed_alloc
    QUALIFY number <= $most::BIGINT
),

state AS MATERIALIZED (
    SELECT *, max(boost) OVER (PARTITION BY tape, node, zone) AS most_boost
    FROM zone_state
    WHERE ts > 0 AND managed > 0
),

moment AS MATERIALIZED (
    SELECT DISTINCT tape, ts, snapshot FROM state
),

near AS (
    SELECT
        f.number,
        if(a.ts IS NULL OR f.ts - b.ts <= a.ts - f.ts, b.ts, a.ts) AS ts,
        if(a.ts IS NULL OR f.ts - b.ts <= a.ts - f.ts, b.snapshot, a.snapshot) AS snapshot
    FROM failed AS f
    ASOF LEFT JOIN moment AS b ON b.tape = f.tape AND b.ts <= f.ts
    ASOF LEFT JOIN moment AS a ON a.tape = f.tape AND a.ts > f.ts
),

home AS (
    SELECT tape, cpu, min(to_node) AS node
    FROM (SELECT * FROM node_distance QUALIFY distance = min(distance) OVER (PARTITION BY tape, cpu))
    GROUP BY tape, cpu
),

changed AS (
    SELECT tape, count(*) > 0 AS marks FROM parameter WHERE name = 'wmark_min' GROUP BY tape
)

SELECT
    s.* REPLACE (n.snapshot AS snapshot),
    f.number,
    f.total,
    (f.ts::BIGINT - m.start_ts::BIGINT) / 1e9 AS at_s,
    coalesce(t.comm, f.pid::VARCHAR) AS comm,
    f.page_order,
    f.migratetype,
    gfp_names(f.gfp_flags) AS gfp,
    f.by_recorder,
    f.lacks,
    h.node::BIGINT AS home,
    (SELECT count(DISTINCT node) FROM state) AS nodes,
    coalesce(p.marks, false) AS marks_change,
    (n.ts::BIGINT - m.start_ts::BIGINT) / 1e9 AS state_s,
    c.free_pages AS counted,
    c.error_pages,
    c.widest_pages
FROM failed AS f
JOIN machine AS m USING (tape)
JOIN near AS n USING (number)
LEFT JOIN state AS s ON s.tape = f.tape AND s.ts = n.ts AND s.snapshot IS NOT DISTINCT FROM n.snapshot
LEFT JOIN free_at_failure AS c ON c.tape = f.tape AND c.node = s.node AND c.zone = s.zone AND c.ts = f.ts
LEFT JOIN home AS h ON h.tape = f.tape AND h.cpu = f.cpu
LEFT JOIN changed AS p ON p.tape = f.tape
LEFT JOIN task AS t ON t.tape = f.tape AND t.pid = f.pid
ORDER BY f.number, s.node, s.place

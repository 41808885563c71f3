-- Failed requests, and what the zones lacked at that moment, one row each.
--
-- Free memory at the moment of a failure is counted from the page events (view free_at_failure), with the error of that count. The
-- kernel's test of each zone that the request may take is that of the macro above_min. `memory`: no zone passes it, whatever
-- the error and the reserves are. `block`: a zone surely passes, so that the request failed for want of a block. Null: neither is sure,
-- or the tape has no events to count free memory with. The boost of the min watermark is at most that of the last sample and
-- one pageblock for each fallback since and for one under way (boost_watermark), and at most the largest of the tape; with lost events, the largest. A request with THISNODE may take the node of its CPU.
-- Memory policies and cpusets of tasks are not on the tape.
--
-- Rows: few
--
-- Columns:
--   tape          VARCHAR    Name of the tape.
--   ts            UBIGINT    Trace clock, ns.
--   cpu           USMALLINT  CPU.
--   pid           INTEGER    Thread.
--   page_order    INTEGER    Requested order.
--   migratetype   VARCHAR    Requested migratetype.
--   gfp_flags     UINTEGER   Canonical gfp bits.
--   by_recorder   BOOLEAN    The recorder's own request.
--   free_pages    BIGINT     Free pages of the zones that it may take; null if unknown.
--   usable_pages  BIGINT     Of these, pages that it may use, by the count of the events; null if unknown.
--   at_most       BOOLEAN    There are at most usable_pages: CMA or HIGHATOMIC pages among them are unknown.
--   lacks         VARCHAR    memory or block; null if unknown.
--   elsewhere     BOOLEAN    A zone of another node, which THISNODE excludes, surely passes the test.
WITH failed AS MATERIALIZED (
    SELECT
        row_number() OVER () AS number,
        e.tape,
        e.ts,
        e.cpu,
        e.pid,
        e.page_order::INTEGER AS page_order,
        e.migratetype::VARCHAR AS migratetype,
        e.gfp_flags,
        gfp_has(e.gfp_flags, 'THISNODE') AS thisnode,
        (e.tape, e.pid) IN (SELECT (tape, pid) FROM recorder_task) AS by_recorder
    FROM sequence_rare_event AS e
    WHERE e.kind = 'alloc' AND e.pfn IS NULL AND e.page_order < 20
),

bound AS MATERIALIZED (
    SELECT
        tape,
        node,
        zone,
        any_value(place) AS place,
        bool_or(has_highmem) AS has_highmem,
        arg_min(struct_pack(wmark_min, lowmem_reserve), snapshot) FILTER (snapshot IS NOT NULL) AS first,
        coalesce(max(boost), 0) AS boost,
        coalesce(max(reserved_highatomic), max(free_highatomic)) AS reserved,
        if(bool_and(free_cma = 0), 0, NULL) AS cma
    FROM zone_state
    WHERE managed > 0
    GROUP BY tape, node, zone
),

-- Fallbacks of a zone so far: each raises its boost by a pageblock at most.
raised AS MATERIALIZED (
    SELECT
        e.tape,
        z.node,
        z.zone::VARCHAR AS zone,
        e.ts,
        count(*) OVER (PARTITION BY e.tape, z.node, z.zone ORDER BY e.ts) AS nr
    FROM extfrag AS e
    JOIN zone AS z
        ON z.tape = e.tape AND z.snapshot = 0 AND e.pfn >= z.start_pfn AND e.pfn < z.start_pfn + z.spanned
    WHERE e.tape IN (SELECT tape FROM failed)
),

-- A zone without a row in a sample has the boost of the sample before.
boost_row AS MATERIALIZED (
    SELECT tape, node, zone::VARCHAR AS zone, name, began, ts, value
    FROM sample
    WHERE zone IS NOT NULL AND name IN ('boost', 'free') AND began IS NOT NULL
      AND tape IN (SELECT tape FROM raised)
      AND tape NOT IN (SELECT tape FROM lost)
),

boosted AS MATERIALIZED (
    SELECT b.tape, b.node, b.zone, s.ts, v.value, coalesce(r.nr, 0) AS nr
    FROM (SELECT DISTINCT tape, began, ts FROM boost_row) AS s
    JOIN bound AS b USING (tape)
    ASOF JOIN (FROM boost_row WHERE name = 'boost') AS v
        ON v.tape = b.tape AND v.node = b.node AND v.zone = b.zone AND v.ts <= s.ts
    ASOF LEFT JOIN raised AS r ON r.tape = b.tape AND r.node = b.node AND r.zone = b.zone AND r.ts < s.began
),

-- Apart from the rows of `tried`, whose long structs an ASOF join would sort as well.
boost_at AS MATERIALIZED (
    SELECT f.number, b.node, b.zone, u.value, coalesce(r.nr, 0) - u.nr AS nr
    FROM failed AS f
    JOIN bound AS b USING (tape)
    ASOF LEFT JOIN boosted AS u ON u.tape = b.tape AND u.node = b.node AND u.zone = b.zone AND u.ts <= f.ts
    ASOF LEFT JOIN raised AS r ON r.tape = b.tape AND r.node = b.node AND r.zone = b.zone AND r.ts <= f.ts
),

home AS (
    SELECT tape, cpu, to_node AS node
    FROM node_distance
    QUALIFY distance = min(distance) OVER (PARTITION BY tape, cpu)
),

tried AS (
    SELECT
        f.number,
        b.*,
        m,
        alloc_request(f.gfp_flags, f.page_order, f.migratetype, b.has_highmem, m) AS rq,
        f.ts,
        NOT f.thisnode OR coalesce(b.node = h.node, true) AS allowed
    FROM failed AS f
    JOIN machine AS m USING (tape)
    JOIN bound AS b USING (tape)
    LEFT JOIN home AS h ON h.tape = f.tape AND h.cpu = f.cpu
),

stated AS (
    SELECT
        t.number,
        t.m,
        t.rq,
        t.allowed,
        c.free_pages,
        NOT (t.rq['movable'] OR t.cma IS NOT DISTINCT FROM 0) OR t.reserved IS DISTINCT FROM 0 AS at_most,
        {
            'place': t.place,
            'free': c.free_pages - least(coalesce(c.error_pages, -c.widest_pages), 0),
            'wmark_min': t.first.wmark_min,
            'boost': 0::BIGINT,
            'lowmem_reserve': t.first.lowmem_reserve,
            'reserved_highatomic': 0::BIGINT,
            'free_highatomic': 0::BIGINT,
            'free_cma': 0::BIGINT,
            'any_blocks': NULL::BIGINT[]
        } AS most,
        {
            'place': t.place,
            'free': c.free_pages - greatest(coalesce(c.error_pages, c.widest_pages), 0)
            - if(t.rq['movable'], 0, t.cma) - t.reserved,
            'wmark_min': t.first.wmark_min,
            'boost': least(t.boost, a.value + ((a.nr + 1) << t.m.pageblock_order)),
            'lowmem_reserve': t.first.lowmem_reserve,
            'reserved_highatomic': 0::BIGINT,
            'free_highatomic': 0::BIGINT,
            'free_cma': 0::BIGINT,
            'any_blocks': NULL::BIGINT[]
        } AS least
    FROM tried AS t
    LEFT JOIN free_at_failure AS c ON c.tape = t.tape AND c.node = t.node AND c.zone = t.zone AND c.ts = t.ts
    JOIN boost_at AS a ON a.number = t.number AND a.node = t.node AND a.zone = t.zone
    WHERE t.place <= t.rq['zone']
),

judged AS (
    SELECT
        number,
        sum(free_pages) FILTER (allowed)::BIGINT AS free_pages,
        sum(greatest(usable_pages(most, rq, m) - most['free'] + free_pages, 0)) FILTER (allowed)::BIGINT AS usable_pages,
        coalesce(bool_or(at_most) FILTER (allowed), false) AS at_most,
        bool_and(
            coalesce(NOT above_min(most, rq, m) OR usable_pages(most, rq, m) < 1::BIGINT << rq['page_order'], false)
        ) FILTER (allowed) AS memory,
        bool_or(coalesce(above_min(least, rq, m), false)) FILTER (allowed) AS passes,
        bool_or(coalesce(above_min(least, rq, m), false)) FILTER (NOT allowed) AS elsewhere
    FROM stated
    GROUP BY number
)

SELECT
    * REPLACE (
        if(j.usable_pages IS NULL, NULL, j.at_most) AS at_most,
        coalesce(j.elsewhere, false) AS elsewhere
    ),
    CASE WHEN j.memory THEN 'memory' WHEN j.passes AND f.page_order > 0 THEN 'block' END AS lacks
FROM failed AS f
LEFT JOIN judged AS j USING (number)

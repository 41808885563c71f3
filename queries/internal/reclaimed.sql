-- Frees that reclaim and compaction made, in the tape's order.
--
-- Input of a replay with feedback (`replay --reclaim R1`): the model's own reclaim takes these
-- pages. The rows become the table `reclaimed`.
--
-- Columns:
--   at          BIGINT    Row of `event` of the free.
--   ts          UBIGINT   Trace clock of that row, ns.
--   kind        VARCHAR   free or free_batched.
--   pfn         UBIGINT   First pfn of the freed block.
--   page_order  UTINYINT  Order of the page; 0 for free_batched.
--   cause       VARCHAR   kswapd, direct, node_reclaim, compact or shrinker (called by kswapd).
--   since       BIGINT    Row of the previous alloc or free of that page; null if the tape has none.
WITH placed AS (
    SELECT row_number() OVER () - 1 AS place, ts, pid, kind, pfn, page_order
    FROM event
),

page_event AS MATERIALIZED (
    SELECT place, ts, pid, kind, pfn, coalesce(page_order, 0) AS page_order
    FROM placed
    WHERE kind IN ('alloc', 'free', 'free_batched') AND pfn IS NOT NULL
),

kswapd AS (
    SELECT DISTINCT pid FROM reclaim_window WHERE cause = 'kswapd'
),

-- Begins and ends of the calls of shrinkers by kswapd.
shrinker AS (
    SELECT pid, ts, kind
    FROM reclaim
    WHERE kind IN ('shrink_slab_start', 'shrink_slab_end') AND pid IN (FROM kswapd)
),

taken AS MATERIALIZED (
    SELECT f.place, f.ts, f.kind, f.pfn, f.page_order, s.cause
    FROM page_event AS f
    JOIN reclaim_slice AS s
        ON s.pid = f.pid
        AND s.slice = (f.ts >> 22)::BIGINT
        AND f.ts BETWEEN s.from_ts AND s.until_ts
    WHERE f.kind <> 'alloc'
      AND s.cause IN ('direct', 'node_reclaim', 'compact')
      AND f.pid NOT IN (FROM kswapd)
    -- Stretches of one thread overlap where one has no end on the tape: the last to begin counts.
    QUALIFY row_number() OVER (PARTITION BY f.place ORDER BY s.from_ts DESC, s.cause) = 1
    UNION ALL
    SELECT
        f.place,
        f.ts,
        f.kind,
        f.pfn,
        f.page_order,
        CASE WHEN s.kind = 'shrink_slab_start' THEN 'shrinker' ELSE 'kswapd' END
    FROM page_event AS f
    ASOF LEFT JOIN shrinker AS s ON s.pid = f.pid AND f.ts >= s.ts
    WHERE f.kind <> 'alloc' AND f.pid IN (FROM kswapd)
),

touched AS (
    SELECT place, lag(place) OVER (PARTITION BY pfn ORDER BY place) AS since
    FROM page_event
    WHERE kind <> 'free_batched' AND pfn IN (SELECT pfn FROM taken)
)

SELECT t.place AS "at", t.ts, t.kind::VARCHAR AS kind, t.pfn, t.page_order, t.cause, s.since
FROM taken AS t
LEFT JOIN touched AS s USING (place)
ORDER BY t.place

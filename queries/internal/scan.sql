-- Scans of the LRU lists by kswapd, and runs of direct reclaim, in time order.
--
-- Input of a replay with feedback (`replay --reclaim R1`): its reclaim scans at this pace and with
-- this yield. The rows become the table `scan`.
--
-- Columns:
--   ts           UBIGINT    End of the scan, trace clock in ns.
--   what         VARCHAR    kswapd or direct.
--   node         USMALLINT  Node of the kswapd; 0 for direct reclaim.
--   page_order   UTINYINT   Order of the direct reclaim; 0 for kswapd.
--   scanned      UBIGINT    Pages scanned; 0 for direct reclaim.
--   freed        UBIGINT    Pages reclaimed.
--   ns           UBIGINT    Duration, from the thread's previous scan or the begin of its pass.
--   lru_pages    UBIGINT    Size of the node's scanned lists; 0 for direct reclaim.
--   generations  BOOLEAN    The kernel uses the multi-generational LRU.
WITH step AS (
    SELECT
        ts,
        "at",
        pid,
        kind,
        node,
        priority,
        nr_scanned,
        nr_reclaimed,
        lag(ts) OVER its AS before,
        lag(kind) OVER its AS kind_before,
        count(*) FILTER (kind = 'kswapd_wake') OVER its AS pass
    FROM reclaim
    WHERE pid IN (SELECT pid FROM reclaim_window WHERE cause = 'kswapd')
      AND kind IN ('kswapd_wake', 'kswapd_sleep', 'lru_shrink_inactive')
    WINDOW its AS (PARTITION BY pid ORDER BY ts, "at")
),

shrink AS (
    SELECT *
    FROM step
    WHERE kind = 'lru_shrink_inactive' AND kind_before <> 'kswapd_sleep' AND nr_scanned > 0
),

-- A pass ends early at its last priority. The one before it is the most exact.
lists AS (
    SELECT
        node,
        max(ts) AS ts,
        coalesce(arg_min(pages, priority) FILTER (priority > last), min(pages)) AS pages
    FROM (
        SELECT
            pid,
            node,
            pass,
            priority,
            max(ts) AS ts,
            sum(nr_scanned)::BIGINT << least(priority, 12) AS pages,
            min(priority) OVER (PARTITION BY pid, node, pass) AS last
        FROM shrink
        GROUP BY pid, node, pass, priority
    )
    GROUP BY pid, node, pass
),

about AS (
    SELECT
        node,
        ts,
        max(pages) OVER (
            PARTITION BY node ORDER BY ts::BIGINT
            RANGE BETWEEN 1000000000 PRECEDING AND 1000000000 FOLLOWING
        ) AS pages
    FROM lists
),

mode AS (
    SELECT
        coalesce(bool_or(priority < 12), false)
        AND (SELECT count(*) = 0 FROM reclaim WHERE kind = 'lru_shrink_active') AS generations
    FROM shrink
    WHERE kind_before = 'kswapd_wake'
),

scanned AS (
    SELECT
        s.ts,
        s."at",
        'kswapd' AS what,
        s.node,
        0 AS page_order,
        s.nr_scanned AS scanned,
        s.nr_reclaimed AS freed,
        s.ts - s.before AS ns,
        a.pages AS lru_pages
    FROM shrink AS s
    ASOF JOIN about AS a ON a.node = s.node AND s.ts <= a.ts
    UNION ALL
    SELECT w.until_ts, e."at", 'direct', 0, b.page_order, 0, coalesce(e.nr_reclaimed, 0), w.until_ts - w.from_ts, 0
    FROM reclaim_window AS w
    JOIN reclaim AS e ON e.kind = 'direct_reclaim_end' AND e.pid = w.pid AND e.ts = w.until_ts
    JOIN reclaim AS b ON b.kind = 'direct_reclaim_begin' AND b.pid = w.pid AND b.ts = w.from_ts
    WHERE w.cause = 'direct' AND w.ended AND b.page_order IS NOT NULL
)

SELECT
    s.ts,
    s.what,
    s.node::USMALLINT AS node,
    s.page_order::UTINYINT AS page_order,
    s.scanned::UBIGINT AS scanned,
    s.freed::UBIGINT AS freed,
    s.ns::UBIGINT AS ns,
    s.lru_pages::UBIGINT AS lru_pages,
    m.generations
FROM scanned AS s
CROSS JOIN mode AS m
ORDER BY s.ts, s."at"

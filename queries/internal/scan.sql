-- Scans by kswapd, runs of direct reclaim and compaction, tries on a near node, in time order.
--
-- Input of a replay with feedback (`replay --reclaim R1`): its reclaim and compaction work at this
-- pace and with this yield. The rows become the table `scan`.
--
-- Columns:
--   ts           UBIGINT    End of the scan, trace clock in ns.
--   what         VARCHAR    kswapd, direct, compaction (by kcompactd), direct_compaction or node. A run that
--                           a task asked for through /proc or /sys is not the model's.
--   node         USMALLINT  Node of the kswapd, of the try to reclaim there, or of the compaction; 0 for other work.
--   class_zone   VARCHAR    Highest zone of the node that the pass reclaims, or that of the compaction; DMA for other work.
--   page_order   UTINYINT   Order of the direct reclaim; 0 for other work.
--   scanned      UBIGINT    Pages scanned, or that compaction moved or failed to move; 0 for direct,
--                           and for a pass of kswapd that found the lists empty.
--   freed        UBIGINT    Pages reclaimed, or moved by compaction.
--   ns           UBIGINT    Duration, from the thread's previous scan or the begin of its pass.
--   lru_pages    UBIGINT    Pages of these zones on the node's scanned lists; 0 for other work.
--   generations  BOOLEAN    The kernel uses the multi-generational LRU.
--   pass         UINTEGER   Number of the kswapd's pass, from 1; 0 for one that was on at the begin, and
--                           for other work.
--   spent        BOOLEAN    The pass went down to priority 1, the last one; compaction ended without its goal.
--   cpu          USMALLINT  CPU of the kswapd; 0 for other work.
WITH
-- What the kswapds did, without scans of the active lists.
known AS (
    SELECT
        ts,
        "at",
        cpu,
        pid,
        kind,
        last_value(node IGNORE NULLS) OVER to_here AS node,
        count(*) FILTER (kind = 'kswapd_wake') OVER to_here AS pass,
        last_value(CASE WHEN kind = 'kswapd_wake' THEN zone END IGNORE NULLS) OVER to_here AS asked,
        nr_requested,
        nr_scanned,
        nr_taken,
        nr_skipped,
        nr_reclaimed,
        -- An isolation has no priority. The next call of a shrinker is of the same one.
        first_value(priority IGNORE NULLS) OVER from_here AS priority
    FROM reclaim
    WHERE pid IN (SELECT pid FROM reclaim_window WHERE cause = 'kswapd')
      AND (
          kind IN ('kswapd_wake', 'kswapd_sleep', 'lru_shrink_inactive', 'shrink_slab_start')
          OR (kind = 'lru_isolate' AND coalesce(lru, 0) NOT IN (1, 3))
      )
    WINDOW
        to_here AS (PARTITION BY pid ORDER BY ts, "at"),
        from_here AS (
            PARTITION BY pid ORDER BY ts, "at" ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
        )
),

-- Pages of zones above the pass's are skipped, but count as scanned.
isolated AS (
    SELECT
        * EXCLUDE (nr_scanned),
        nr_scanned - CASE
            WHEN kind = 'lru_isolate' THEN least(coalesce(nr_skipped, 0), nr_scanned)
            WHEN lag(kind) OVER its = 'lru_isolate' THEN least(lag(nr_skipped) OVER its, nr_scanned)
            ELSE 0
        END AS nr_scanned
    FROM known
    WHERE kind <> 'shrink_slab_start'
    WINDOW its AS (PARTITION BY pid ORDER BY ts, "at")
),

-- An isolation that took no page is a scan too. No other event shows it.
step AS (
    SELECT
        *,
        lag(ts) OVER its AS before,
        lag(kind) OVER its AS kind_before
    FROM isolated
    WHERE kind <> 'lru_isolate' OR nr_taken = 0
    WINDOW its AS (PARTITION BY pid ORDER BY ts, "at")
),

populated AS (
    SELECT DISTINCT node, zone::VARCHAR AS zone, list_position(zones, zone::VARCHAR) AS place
    FROM zone, (SELECT ['DMA', 'DMA32', 'NORMAL', 'HIGHMEM', 'MOVABLE', 'DEVICE'] AS zones)
    WHERE managed > 0
),

-- Two classes of zones are one if the node has no memory in between.
class AS (
    SELECT k.node, k.asked, arg_max(p.zone, p.place) AS class_zone
    FROM (SELECT DISTINCT node, asked FROM known) AS k
    JOIN populated AS p ON p.node = k.node
    WHERE k.asked IS NULL
       OR p.place <= list_position(['DMA', 'DMA32', 'NORMAL', 'HIGHMEM', 'MOVABLE', 'DEVICE'], k.asked::VARCHAR)
    GROUP BY k.node, k.asked
),

shrink AS (
    SELECT s.*, coalesce(c.class_zone, 'DMA') AS class_zone
    FROM step AS s
    LEFT JOIN class AS c ON c.node = s.node AND c.asked IS NOT DISTINCT FROM s.asked
    WHERE s.kind IN ('lru_isolate', 'lru_shrink_inactive')
      AND s.kind_before <> 'kswapd_sleep'
      AND s.nr_scanned > 0
      AND s.node IS NOT NULL
),

-- A pass that found the lists of its zones empty at every priority. Only its calls of shrinkers
-- show it.
vain AS (
    SELECT
        max(k.ts) FILTER (k.kind = 'shrink_slab_start') AS ts,
        arg_max(k."at", k.ts) FILTER (k.kind = 'shrink_slab_start') AS "at",
        max(k.cpu) AS cpu,
        k.node,
        k.pass,
        coalesce(c.class_zone, 'DMA') AS class_zone,
        max(k.ts) FILTER (k.kind = 'shrink_slab_start') - min(k.ts) AS ns
    FROM known AS k
    LEFT JOIN class AS c ON c.node = k.node AND c.asked IS NOT DISTINCT FROM k.asked
    WHERE k.pass > 0
      AND (
          SELECT bool_or(kind = 'lru_isolate') OR NOT bool_or(kind = 'lru_shrink_inactive')
          FROM known
      )
    GROUP BY k.pid, k.pass, k.node, c.class_zone
    HAVING count(*) FILTER (k.kind IN ('lru_isolate', 'lru_shrink_inactive')) = 0
       AND min(k.priority) FILTER (k.kind = 'shrink_slab_start') <= 1
),

-- The passes that went down to the last priority.
spent AS (
    SELECT pid, pass
    FROM known
    WHERE pass > 0
    GROUP BY pid, pass
    HAVING min(priority) <= 1
),

-- The scans of a pass at one priority: that share of the lists. A pass ends early at its last
-- priority, unless that is 1.
share AS (
    SELECT
        pid,
        node,
        class_zone,
        pass,
        priority,
        max(ts) AS ts,
        sum(nr_scanned)::BIGINT << least(priority, 12) AS pages,
        priority <= 1 OR priority > min(priority) OVER (PARTITION BY pid, node, class_zone, pass) AS whole
    FROM shrink
    GROUP BY pid, node, class_zone, pass, priority
),

-- A part shows the lists at least as large as the nearest whole shares do.
about AS (
    SELECT
        p.pid,
        p.pass,
        p.priority,
        CASE
            WHEN p.whole THEN p.pages
            WHEN a.ts IS NULL OR p.ts - b.ts <= a.ts - p.ts THEN greatest(coalesce(b.pages, p.most), p.pages)
            ELSE greatest(a.pages, p.pages)
        END AS pages
    FROM (
        SELECT
            *,
            max(pages) OVER (
                PARTITION BY node, class_zone ORDER BY ts::BIGINT
                RANGE BETWEEN 1000000000 PRECEDING AND 1000000000 FOLLOWING
            ) AS most
        FROM share
    ) AS p
    ASOF LEFT JOIN (SELECT * FROM share WHERE whole) AS b
        ON b.node = p.node AND b.class_zone = p.class_zone AND p.ts >= b.ts
    ASOF LEFT JOIN (SELECT * FROM share WHERE whole) AS a
        ON a.node = p.node AND a.class_zone = p.class_zone AND p.ts <= a.ts
),

-- The other LRU never asks for more than 32 pages at once (SWAP_CLUSTER_MAX), and mostly begins at
-- priority 12.
mode AS (
    SELECT
        coalesce(
            (SELECT max(nr_requested) > 32 FROM known WHERE kind = 'lru_isolate'),
            bool_or(priority < 12) AND (SELECT count(*) = 0 FROM reclaim WHERE kind = 'lru_shrink_active'),
            false
        ) AS generations
    FROM shrink
    WHERE kind_before = 'kswapd_wake'
),

scanned AS (
    SELECT
        s.ts,
        s."at",
        'kswapd' AS what,
        s.node,
        s.class_zone,
        0 AS page_order,
        s.nr_scanned AS scanned,
        coalesce(s.nr_reclaimed, 0) AS freed,
        s.ts - s.before AS ns,
        a.pages AS lru_pages,
        s.pass,
        p.pass IS NOT NULL AS spent,
        s.cpu
    FROM shrink AS s
    JOIN about AS a ON a.pid = s.pid AND a.pass = s.pass AND a.priority IS NOT DISTINCT FROM s.priority
    LEFT JOIN spent AS p ON p.pid = s.pid AND p.pass = s.pass
    UNION ALL
    SELECT ts, "at", 'kswapd', node, class_zone, 0, 0, 0, ns, 0, pass, true, cpu FROM vain
    UNION ALL
    SELECT w.until_ts, e."at", 'direct', 0, 'DMA', b.page_order, 0, coalesce(e.nr_reclaimed, 0), w.until_ts - w.from_ts, 0, 0, false, 0
    FROM reclaim_window AS w
    JOIN reclaim AS e ON e.kind = 'direct_reclaim_end' AND e.pid = w.pid AND e.ts = w.until_ts
    JOIN reclaim AS b ON b.kind = 'direct_reclaim_begin' AND b.pid = w.pid AND b.ts = w.from_ts
    WHERE w.cause = 'direct' AND w.ended AND b.page_order IS NOT NULL
    UNION ALL
    SELECT w.until_ts, e."at", 'node', b.node, 'DMA', 0, 0, coalesce(e.nr_reclaimed, 0), w.until_ts - w.from_ts, 0, 0, false, 0
    FROM reclaim_window AS w
    JOIN reclaim AS e ON e.kind = 'node_reclaim_end' AND e.pid = w.pid AND e.ts = w.until_ts
    JOIN reclaim AS b ON b.kind = 'node_reclaim_begin' AND b.pid = w.pid AND b.ts = w.from_ts
    WHERE w.cause = 'node_reclaim' AND w.ended AND b.node IS NOT NULL
    UNION ALL
    SELECT
        until_ts,
        NULL,
        CASE WHEN who IN ('kcompactd', 'proactive') THEN 'compaction' ELSE 'direct_compaction' END,
        coalesce(node, 0),
        coalesce(zone::VARCHAR, 'DMA'),
        0,
        coalesce(moved, 0) + coalesce(failed, 0),
        coalesce(moved, 0),
        until_ts - from_ts,
        0,
        0,
        coalesce(outcome <> 'success', false),
        0
    FROM compaction_run
    WHERE who NOT IN ('explicit', 'unknown') AND until_ts >= from_ts
)

SELECT *
FROM scanned AS s
CROSS JOIN mode AS m
ORDER BY s.ts, s."at"

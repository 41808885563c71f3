-- Activity of each kswapd: wakes, passes, sleeps, and premature sleeps.
--
-- A pass (kswapd_wake) is not a wake from sleep: a kswapd that cannot balance its node
-- starts one pass after another. A sleep is premature if an allocation wakes that kswapd
-- within one second. On a machine with one node, direct reclaim within that second also makes
-- the sleep premature. In both cases the node was not balanced. kswapd naps for 100 ms before
-- each sleep; no event records the nap.
--
-- Calls and wakes differ. From the end of a nap until kswapd gets a CPU, each allocation that
-- calls kswapd emits wakeup_kswapd, but none of these calls wakes kswapd.
--
-- From 7.0 on, the kernel records failures: passes that reclaimed nothing. After 16 failures in a
-- row, kswapd is hopeless and no longer wakes, until its count goes back to 0. From 7.2 on, it
-- records the result of each pass. These columns are empty if the tape has no such events.
--
-- Events: whole
-- Tier: B
--
-- Columns:
--   node              SMALLINT  NUMA node.
--   wakeups           BIGINT    Calls of allocations that found kswapd asleep; there may be several before it runs.
--   passes            BIGINT    Passes of kswapd over its zones.
--   sleeps            BIGINT    Times kswapd fell asleep.
--   premature_sleeps  BIGINT    Sleeps that were premature.
--   awake_ms          DOUBLE    Mean time from a wake to the next sleep, in ms.
--   kcompactd_asked   BIGINT    Wakeups of kcompactd for this node, for an order.
--   kcompactd_wakes   BIGINT    Times kcompactd worked for an order. Its proactive runs have no such
--                               event: see compaction.results.
--   scanned           HUGEINT   Pages kswapd scanned, if the tape records them.
--   reclaimed         HUGEINT   Pages kswapd reclaimed, if the tape records them.
--   efficiency        DOUBLE    reclaimed / scanned, 0 to 1.
--   woken             BIGINT    First calls since kswapd's last pass or sleep: `kswapd wakeups` of compare.
--   failures          BIGINT    Passes that the kernel counted as failures.
--   most_failures     INTEGER   Largest number of failures in a row.
--   clears            BIGINT    Times the number of failures went back to 0.
--   pass_reclaimed    HUGEINT   Pages reclaimed in whole passes, of all kinds.
--   lower_order       BIGINT    Passes that ended with a lower order than they began with.
WITH kswapd AS (
    SELECT tape, node, any_value(pid) AS pid FROM kswapd_step GROUP BY tape, node
),

alarm AS (
    SELECT tape, node, ts FROM reclaim WHERE kind = 'wakeup_kswapd'
    UNION ALL
    SELECT r.tape, 0, r.ts
    FROM reclaim AS r
    JOIN machine AS m USING (tape)
    WHERE r.kind = 'direct_reclaim_begin' AND m.nodes = 1
),

sleep AS (
    SELECT s.node, count(*) AS sleeps, count(*) FILTER (a.ts - s.ts <= 1000000000) AS premature_sleeps
    FROM (SELECT * FROM kswapd_step WHERE kind = 'kswapd_sleep') AS s
    ASOF LEFT JOIN alarm AS a
        ON a.tape = s.tape
        AND a.node = s.node
        AND s.ts <= a.ts
    GROUP BY s.node
),

awake AS (
    SELECT node, avg(next_ts - ts) / 1e6 AS awake_ms
    FROM (
        SELECT node, ts, kind, lead(ts) OVER its AS next_ts, lead(kind) OVER its AS next_kind
        FROM kswapd_step
        WHERE kind = 'kswapd_sleep' OR before IS DISTINCT FROM 'kswapd_wake'
        WINDOW its AS (PARTITION BY tape, node ORDER BY ts)
    )
    WHERE kind = 'kswapd_wake' AND next_kind = 'kswapd_sleep'
    GROUP BY node
),

scan AS (
    SELECT k.node, sum(r.nr_scanned) AS scanned, sum(r.nr_reclaimed) AS reclaimed
    FROM reclaim AS r
    JOIN kswapd AS k USING (tape, pid)
    WHERE r.kind = 'lru_shrink_inactive'
    GROUP BY k.node
),

compact AS (
    SELECT
        node,
        -- Order -1: a task wrote to vm.compaction_proactiveness.
        count(*) FILTER (kind = 'wakeup_kcompactd' AND page_order IS DISTINCT FROM -1) AS kcompactd_asked,
        count(*) FILTER (kind = 'kcompactd_wake') AS kcompactd_wakes
    FROM compaction
    WHERE kind IN ('wakeup_kcompactd', 'kcompactd_wake')
    GROUP BY node
),

balance AS (
    SELECT
        node,
        nullif(count(*) FILTER (kind = 'kswapd_reclaim_fail'), 0) AS failed,
        max(failures) AS most_failures,
        nullif(count(*) FILTER (kind = 'kswapd_clear_hopeless'), 0) AS clears,
        sum(nr_reclaimed) FILTER (kind = 'balance_pgdat_end') AS pass_reclaimed,
        CASE
            WHEN bool_or(kind = 'balance_pgdat_end') THEN
                count(*) FILTER (kind = 'balance_pgdat_end' AND began = 'balance_pgdat_begin' AND page_order < began_order)
        END AS lower_order
    FROM (
        SELECT
            *,
            lag(kind) OVER its AS began,
            lag(page_order) OVER its AS began_order
        FROM reclaim
        WHERE kind IN ('balance_pgdat_begin', 'balance_pgdat_end')
        WINDOW its AS (PARTITION BY tape, node ORDER BY ts, "at")
        UNION ALL BY NAME
        SELECT * FROM reclaim WHERE kind IN ('kswapd_reclaim_fail', 'kswapd_clear_hopeless')
    )
    GROUP BY node
),

acted AS (
    SELECT
        node,
        count(*) FILTER (kind = 'wakeup_kswapd') AS wakeups,
        count(*) FILTER (kind = 'kswapd_wake') AS passes,
        count(*) FILTER (kind = 'wakeup_kswapd' AND before IS DISTINCT FROM 'wakeup_kswapd') AS woken
    FROM (
        SELECT node, kind, lag(kind) OVER (PARTITION BY tape, node ORDER BY ts, "at") AS before
        FROM reclaim
        WHERE kind IN ('wakeup_kswapd', 'kswapd_wake', 'kswapd_sleep') AND node IS NOT NULL
    )
    GROUP BY node
    UNION ALL
    SELECT DISTINCT node, 0, 0, 0
    FROM compaction
    WHERE kind IN ('wakeup_kcompactd', 'kcompactd_wake') AND node IS NOT NULL
)

SELECT
    a.node,
    max(a.wakeups) AS wakeups,
    max(a.passes) AS passes,
    coalesce(max(s.sleeps), 0) AS sleeps,
    coalesce(max(s.premature_sleeps), 0) AS premature_sleeps,
    round(max(w.awake_ms), 3) AS awake_ms,
    coalesce(max(c.kcompactd_asked), 0) AS kcompactd_asked,
    coalesce(max(c.kcompactd_wakes), 0) AS kcompactd_wakes,
    max(r.scanned) AS scanned,
    max(r.reclaimed) AS reclaimed,
    round(max(r.reclaimed) / nullif(max(r.scanned), 0), 3) AS efficiency,
    max(a.woken) AS woken,
    max(b.failed) AS failures,
    max(b.most_failures) AS most_failures,
    max(b.clears) AS clears,
    max(b.pass_reclaimed) AS pass_reclaimed,
    max(b.lower_order) AS lower_order
FROM acted AS a
LEFT JOIN sleep AS s USING (node)
LEFT JOIN awake AS w USING (node)
LEFT JOIN scan AS r USING (node)
LEFT JOIN compact AS c USING (node)
LEFT JOIN balance AS b USING (node)
GROUP BY a.node
ORDER BY a.node

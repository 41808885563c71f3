-- Work of each kswapd: time awake, reason of its calls, pages scanned and freed.
--
-- kswapd is awake from its first pass after a sleep to its next sleep, or to the end of the tape. A
-- call without gfp flags is the call for a watermark boost, which the kernel makes after a
-- fallback (rmqueue, 5.0 and later): memory need not be short. `freed` counts all frees of the thread:
-- slab pages, too.
--
-- Columns:
--   node         INTEGER  NUMA node.
--   awake_s      DOUBLE   Time awake, in seconds.
--   passes       BIGINT   Passes over the zones.
--   calls        BIGINT   Calls of allocations that found kswapd asleep.
--   boost_calls  BIGINT   Of these, calls because of a watermark boost.
--   order_calls  BIGINT   Of these, calls for an order above 0.
--   scanned      BIGINT   Pages scanned on the inactive lists; null if not recorded.
--   reclaimed    BIGINT   Of these, pages reclaimed; null if not recorded.
--   freed        BIGINT   Pages that the thread freed.
--   dirty        BIGINT   Scanned pages that were dirty or under writeback.
--   referenced   BIGINT   Scanned pages that were in use: activated or referenced.
WITH thread AS (
    SELECT tape, node, any_value(pid) AS pid FROM kswapd_step GROUP BY tape, node
),

awake AS (
    SELECT
        p.node,
        sum(
            CASE
                WHEN p.kind = 'kswapd_wake'
                    THEN greatest(coalesce(p.next_ts, m.end_ts)::BIGINT - p.ts::BIGINT, 0)
                WHEN p.before IS NULL THEN greatest(p.ts::BIGINT - m.start_ts::BIGINT, 0)
                ELSE 0
            END
        ) / 1e9 AS awake_s,
        count(*) FILTER (p.kind = 'kswapd_wake') AS passes
    FROM kswapd_step AS p
    JOIN machine AS m USING (tape)
    GROUP BY p.node
),

call AS (
    SELECT
        node,
        count(*) AS calls,
        count(*) FILTER (page_order = 0 AND gfp_flags = 0) AS boost_calls,
        count(*) FILTER (page_order > 0) AS order_calls
    FROM reclaim
    WHERE kind = 'wakeup_kswapd' AND node IS NOT NULL
    GROUP BY node
),

scan AS (
    SELECT
        t.node,
        sum(r.nr_scanned) AS scanned,
        sum(r.nr_reclaimed) AS reclaimed,
        sum(coalesce(r.nr_dirty, 0) + coalesce(r.nr_writeback, 0)) AS dirty,
        sum(coalesce(r.nr_activated_anon, 0) + coalesce(r.nr_activated_file, 0) + coalesce(r.nr_ref_keep, 0))
            AS referenced
    FROM reclaim AS r
    JOIN thread AS t USING (tape, pid)
    WHERE r.kind = 'lru_shrink_inactive'
    GROUP BY t.node
),

freed AS (
    SELECT t.node, sum(e.events << least(e.page_order::INTEGER, 20)) AS pages
    FROM event_group AS e
    JOIN thread AS t USING (tape, pid)
    WHERE e.kind = 'free'
    GROUP BY t.node
)

SELECT
    n.node::INTEGER AS node,
    coalesce(a.awake_s, 0)::DOUBLE AS awake_s,
    coalesce(a.passes, 0) AS passes,
    coalesce(c.calls, 0) AS calls,
    coalesce(c.boost_calls, 0) AS boost_calls,
    coalesce(c.order_calls, 0) AS order_calls,
    s.scanned::BIGINT AS scanned,
    s.reclaimed::BIGINT AS reclaimed,
    coalesce(f.pages, 0)::BIGINT AS freed,
    s.dirty::BIGINT AS dirty,
    s.referenced::BIGINT AS referenced
FROM (SELECT node FROM awake UNION SELECT node FROM call) AS n
LEFT JOIN awake AS a USING (node)
LEFT JOIN call AS c USING (node)
LEFT JOIN scan AS s USING (node)
LEFT JOIN freed AS f USING (node)
ORDER BY n.node

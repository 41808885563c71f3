-- Free pages of MIGRATE_RESERVE on its own and on other free lists, over time.
--
-- The reserve's pageblocks keep their free pages for requests that find nothing else, above
-- all high-order requests that cannot sleep. Read `astray_pages` first: these are free
-- pages of the reserve on other lists, where any request may take them and a fallback may
-- change the block's migratetype (`blocks` then falls). Under `bug` they grow
-- with `leaked`. Under every fix they should stay 0, except for pages that were taken off
-- the reserve and freed unused.
--
-- Requests that may sleep take pages of the reserve, too (`sleeping_reserve`), and leave fewer
-- for requests that cannot. Stacks of threads were such requests, of order 1 on x86-64.
-- The columns are null for replays of earlier versions of pagetape, which did not count these.
--
-- A fix costs holds of the zone lock: compare `lock_holds` between replays of one tape.
-- `past_pcp` counts the frees that took the lock only for the reserve (fix2).
--
-- Only for replays under the policy `reserve`, or under a kernel row up to 2.6.33.
-- The columns from `leaked` on are totals since the start.
--
-- Tier: A
--
-- Columns:
--   at_s              DOUBLE     Seconds since the first row.
--   node              USMALLINT  NUMA node.
--   zone              VARCHAR    Zone.
--   blocks            UINTEGER   Pageblocks of the reserve.
--   home_pages        UINTEGER   Free pages of these blocks on the reserve's lists.
--   astray_pages      UINTEGER   Free pages of these blocks on other lists.
--   pcp_pages         UINTEGER   Pages of these blocks on per-CPU lists.
--   leaked            BIGINT     Pages that a drain freed to another list.
--   taken             BIGINT     Pages taken off the reserve as the last resort.
--   atomic_orders     BIGINT     Allocations of orders 1 to 3 that could not sleep.
--   atomic_reserve    BIGINT     Such allocations served from a block of the reserve.
--   atomic_failed     BIGINT     Such allocations that failed.
--   sleeping_orders   BIGINT     Allocations of orders 1 to 3 that could sleep.
--   sleeping_reserve  BIGINT     Such allocations served from a block of the reserve.
--   sleeping_failed   BIGINT     Such allocations that failed.
--   past_pcp          BIGINT     Frees that took the zone lock only for the reserve.
--   lock_holds        BIGINT     Times the zone lock was taken.
WITH spent AS (
    SELECT
        ts,
        node,
        zone,
        sum(sum(reserve_leaked)) OVER w AS leaked,
        sum(sum(reserve_taken)) OVER w AS taken,
        sum(sum(atomic_orders)) OVER w AS atomic_orders,
        sum(sum(atomic_orders_reserve)) OVER w AS atomic_reserve,
        sum(sum(atomic_orders_failed)) OVER w AS atomic_failed,
        sum(sum(sleeping_orders)) OVER w AS sleeping_orders,
        sum(sum(sleeping_orders_reserve)) OVER w AS sleeping_reserve,
        sum(sum(sleeping_orders_failed)) OVER w AS sleeping_failed,
        sum(sum(reserve_past_pcp)) OVER w AS past_pcp,
        sum(sum(lock_holds)) OVER w AS lock_holds
    FROM counter
    GROUP BY ts, node, zone
    WINDOW w AS (PARTITION BY node, zone ORDER BY ts)
),
known AS (
    SELECT count(sleeping_orders) = count(*) AS sleeping FROM counter
)
SELECT
    r.*,
    (r.ts - min(r.ts) OVER ()) / 1e9 AS at_s,
    coalesce(s.leaked, 0)::BIGINT AS leaked,
    coalesce(s.taken, 0)::BIGINT AS taken,
    coalesce(s.atomic_orders, 0)::BIGINT AS atomic_orders,
    coalesce(s.atomic_reserve, 0)::BIGINT AS atomic_reserve,
    coalesce(s.atomic_failed, 0)::BIGINT AS atomic_failed,
    CASE WHEN k.sleeping THEN coalesce(s.sleeping_orders, 0)::BIGINT END AS sleeping_orders,
    CASE WHEN k.sleeping THEN coalesce(s.sleeping_reserve, 0)::BIGINT END AS sleeping_reserve,
    CASE WHEN k.sleeping THEN coalesce(s.sleeping_failed, 0)::BIGINT END AS sleeping_failed,
    coalesce(s.past_pcp, 0)::BIGINT AS past_pcp,
    coalesce(s.lock_holds, 0)::BIGINT AS lock_holds
FROM reserve AS r
CROSS JOIN known AS k
ASOF LEFT JOIN spent AS s ON r.node = s.node AND r.zone = s.zone AND r.ts > s.ts
ORDER BY r.node, r.zone, r.ts

-- Traffic of the per-CPU page lists over time, CPU by CPU: refills, drains and imbalance.
--
-- Pages that a list takes and gives back in one interval went through the zone lock for nothing: `churn_percent` is
-- their share of the pages taken. `net_pages` is what the CPU took minus what it gave back:
-- positive on a CPU that allocates pages which another CPU frees. `imbalance_percent` is the share of all traffic of
-- the interval above an even share of the CPUs: 0 is even. Intervals without traffic have no row.
--
-- `percpu_refill` of the kernel (5.19 and later) marks events that suit a refill, which does not prove one. Before 5.19
-- `refilled` is empty, and `taken` has all pages. High limits of the lists are in `pagetape report samples.parameters --name 'pcp_%'`.
--
-- Needs: event.alloc_zone_locked
-- Tier: A
--
-- Parameters:
--   interval_ms  BIGINT 1..9000000000000 = 1000  Width of one row in milliseconds.
--
-- Columns:
--   at_s               DOUBLE     Start of the interval, seconds after the tape's first event.
--   cpu                USMALLINT  CPU.
--   allocs             BIGINT     Allocations of orders that the lists serve.
--   frees              BIGINT     Frees of these orders.
--   taken              BIGINT     Pages taken from the buddy under the zone lock.
--   refilled           BIGINT     Of these, pages for the lists, as the kernel marks them; null before 5.19.
--   drained            BIGINT     Pages that the lists gave back to the buddy.
--   drains             BIGINT     Blocks that the lists gave back, each of one order.
--   net_pages          BIGINT     taken minus drained.
--   churn_percent      DOUBLE     Share of the pages taken that the CPU also gave back, in percent.
--   imbalance_percent  DOUBLE     Traffic of the CPU above an even share, in percent of the interval's traffic; negative: below.
WITH counted AS (
    SELECT
        (e.ts - m.start_ts)::BIGINT // (1000000 * greatest($interval_ms::BIGINT, 1)) AS slice,
        e.cpu,
        count(*) FILTER (e.kind = 'alloc') AS allocs,
        count(*) FILTER (e.kind = 'free') AS frees,
        coalesce(sum(1::BIGINT << e.page_order::INTEGER) FILTER (e.kind = 'alloc_zone_locked'), 0) AS taken,
        sum(if(e.percpu_refill, 1::BIGINT << e.page_order::INTEGER, 0))
            FILTER (e.kind = 'alloc_zone_locked' AND e.percpu_refill IS NOT NULL) AS refilled,
        coalesce(sum(1::BIGINT << e.page_order::INTEGER) FILTER (e.kind = 'pcpu_drain'), 0) AS drained,
        count(*) FILTER (e.kind = 'pcpu_drain') AS drains
    FROM event AS e
    JOIN machine AS m USING (tape)
    WHERE e.kind IN ('alloc', 'free', 'alloc_zone_locked', 'pcpu_drain')
      AND e.pfn IS NOT NULL
      AND has_lists(e.page_order, m.pageblock_order, m.pcp_lists)
    GROUP BY ALL
)

SELECT
    *,
    (slice * greatest($interval_ms::BIGINT, 1) / 1000)::DOUBLE AS at_s,
    (taken - drained)::BIGINT AS net_pages,
    round(100 * least(taken, drained) / nullif(taken, 0), 1) AS churn_percent,
    round(
        100 * (taken + drained) / nullif(sum(taken + drained) OVER (PARTITION BY slice), 0)
        - 100.0 / (SELECT coalesce(max(cpus), 1) FROM machine),
        1
    ) AS imbalance_percent
FROM counted
ORDER BY slice, cpu

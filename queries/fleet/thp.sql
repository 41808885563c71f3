-- Huge pages in a fleet, by kernel: how often a request of pageblock order got its block.
--
-- `served_percent` counts requests of pageblock order, of page faults and of the kernel, on tapes that recorded allocations;
-- its percentiles are over hosts with such requests: p10 is the share that the worst tenth of the hosts does not reach. The
-- `fault_*` columns are the kernel's own counters of page faults, on tapes with two readings of /proc/vmstat: a fault
-- counts once, and a quiet recording has them, too.
--
-- Tier: -
--
-- Columns:
--   kernel           VARCHAR  Kernel release.
--   hosts            BIGINT   Machines with a tape.
--   hours            DOUBLE   Hours of their tapes.
--   requests         BIGINT   Requests of pageblock order; null if no tape recorded allocations.
--   served           BIGINT   Of these, requests that got a block.
--   served_percent   DOUBLE   served of requests, in percent.
--   hosts_asking     BIGINT   Machines with such a request.
--   p10              DOUBLE   10th percentile over these hosts of the host's percentage.
--   p50              DOUBLE   Median over these hosts.
--   fault_allocs     BIGINT   Page faults that got a huge page (thp_fault_alloc); null without readings.
--   fault_fallbacks  BIGINT   Page faults that got none (thp_fault_fallback).
--   fault_charges    BIGINT   Of these, refused by the limit of a cgroup (thp_fault_fallback_charge).
--   fault_percent    DOUBLE   fault_allocs of both, in percent.
WITH recording AS (
    SELECT
        tape,
        kernel,
        machine,
        hours,
        pageblock_order,
        counters,
        was_recorded(recorded, 'kmem:mm_page_alloc') AS asked
    FROM fleet_tape
    WHERE problem IS NULL AND NOT replayed
),

request AS (
    SELECT e.tape, sum(e.events) AS requests, sum(e.events - e.without_page) AS served
    FROM fleet_event AS e
    JOIN recording AS r ON r.tape = e.tape AND r.pageblock_order = e.page_order
    WHERE e.kind = 'alloc'
    GROUP BY e.tape
),

fault AS (
    SELECT
        tape,
        sum(change) FILTER (name = 'thp_fault_alloc') AS allocs,
        sum(change) FILTER (name = 'thp_fault_fallback') AS fallbacks,
        sum(change) FILTER (name = 'thp_fault_fallback_charge') AS charges
    FROM fleet_counter
    GROUP BY tape
),

host AS (
    SELECT
        r.kernel,
        r.machine,
        sum(r.hours) AS hours,
        sum(if(r.asked, coalesce(q.requests, 0), NULL)) AS requests,
        sum(if(r.asked, coalesce(q.served, 0), NULL)) AS served,
        sum(if(r.counters, coalesce(f.allocs, 0), NULL)) AS allocs,
        sum(if(r.counters, coalesce(f.fallbacks, 0), NULL)) AS fallbacks,
        sum(if(r.counters, coalesce(f.charges, 0), NULL)) AS charges
    FROM recording AS r
    LEFT JOIN request AS q USING (tape)
    LEFT JOIN fault AS f USING (tape)
    GROUP BY r.kernel, r.machine
)

SELECT
    kernel,
    count(*) AS hosts,
    round(sum(hours), 3) AS hours,
    sum(requests)::BIGINT AS requests,
    sum(served)::BIGINT AS served,
    round(100 * sum(served) / nullif(sum(requests), 0), 2)::DOUBLE AS served_percent,
    count(*) FILTER (requests > 0) AS hosts_asking,
    round(quantile_cont(100 * served / nullif(requests, 0), 0.1), 2) AS p10,
    round(quantile_cont(100 * served / nullif(requests, 0), 0.5), 2) AS p50,
    sum(allocs)::BIGINT AS fault_allocs,
    sum(fallbacks)::BIGINT AS fault_fallbacks,
    sum(charges)::BIGINT AS fault_charges,
    round(100 * sum(allocs) / nullif(sum(allocs) + sum(fallbacks), 0), 2)::DOUBLE AS fault_percent
FROM host
GROUP BY kernel
ORDER BY kernel

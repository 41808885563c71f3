-- How much passes between the per-CPU page lists and the buddy, tape by tape.
--
-- Every page that the lists cannot serve is taken from the buddy under the zone lock,
-- and those that they cannot hold go back the same way. `traffic` is what was
-- taken, where the first tape given is 100; so give the tape of the policy that
-- the others are to be measured by first, such as `pcp:mode=fixed`. The slides
-- that introduced the auto-tuning of 6.7 tell 100 -> 20 for kernel builds on a machine
-- with 112 cores. Lists that hold more than the load swings by have little left
-- to save, and `high_min` grows with memory for each CPU: on a machine of few
-- CPUs and much memory fixed lists serve nearly as well.
--
-- Of a recorded tape, and of one that is a replay of it, the same span is counted.
-- What a refill was is not told before 5.19: there all counts as direct.
--
-- Tapes: several
--
-- Tier: A
--
-- Columns:
--   tape         VARCHAR  The tape.
--   policy       VARCHAR  Kernel and policy played, or recorded.
--   alloc_pages  BIGINT   Pages allocated.
--   taken        BIGINT   Pages taken from the buddy.
--   refilled     BIGINT   Of them by refills of the lists.
--   direct       BIGINT   Of them past the lists.
--   drained      BIGINT   Pages the lists gave back.
--   refills      BIGINT   Refills; a recording does not tell.
--   lock_holds   BIGINT   Times the zone lock was taken; a recording does not tell.
--   traffic      DOUBLE   Pages taken, the first tape being 100.
--   locking      DOUBLE   Times the lock was taken, the first tape being 100.
WITH moved AS (
    SELECT e.tape, kind, percpu_refill IS TRUE AS refill, count(pfn) << page_order::INTEGER AS pages
    FROM event AS e
    JOIN played AS p ON e.tape = p.tape AND e.ts BETWEEN p.since AND p.until
    WHERE kind IN ('alloc', 'alloc_zone_locked', 'pcpu_drain')
    GROUP BY e.tape, kind, refill, page_order
    UNION ALL
    SELECT tape, kind, false, (events - without_page) << page_order::INTEGER
    FROM event_count
    WHERE kind IN ('alloc', 'alloc_zone_locked', 'pcpu_drain')
),

page AS (
    SELECT
        tape,
        sum(pages) FILTER (kind = 'alloc') AS alloc_pages,
        sum(pages) FILTER (kind = 'alloc_zone_locked') AS taken,
        sum(pages) FILTER (kind = 'alloc_zone_locked' AND refill) AS refilled,
        sum(pages) FILTER (kind = 'pcpu_drain') AS drained
    FROM moved
    GROUP BY tape
),

modelled AS (
    SELECT tape, sum(refills) AS refills, sum(refill_pages) AS refill_pages, sum(lock_holds) AS lock_holds
    FROM counter
    GROUP BY tape
),

counted AS (
    SELECT
        m.place,
        m.tape,
        CASE WHEN replayed THEN concat_ws(', ', model_kernel, policy) ELSE 'recorded' END AS policy,
        coalesce(p.alloc_pages, 0)::BIGINT AS alloc_pages,
        coalesce(p.taken, 0)::BIGINT AS taken,
        coalesce(c.refill_pages, p.refilled, 0)::BIGINT AS refilled,
        coalesce(p.drained, 0)::BIGINT AS drained,
        c.refills::BIGINT AS refills,
        c.lock_holds::BIGINT AS lock_holds
    FROM machine AS m
    LEFT JOIN page AS p USING (tape)
    LEFT JOIN modelled AS c USING (tape)
)

SELECT
    tape,
    policy,
    alloc_pages,
    taken,
    refilled,
    greatest(taken - refilled, 0) AS direct,
    drained,
    refills,
    lock_holds,
    round(100 * taken / nullif(first(taken) OVER (ORDER BY place), 0), 1) AS traffic,
    round(100 * lock_holds / nullif(first(lock_holds) OVER (ORDER BY place), 0), 1) AS locking
FROM counted
ORDER BY place

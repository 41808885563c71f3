-- Page traffic between the per-CPU page lists and the buddy, tape by tape.
--
-- Pages that the lists cannot serve come from the buddy under the zone lock. Pages that the
-- lists cannot hold return the same way. `traffic` is the number of pages taken, relative
-- to the first tape, which is 100. Pass the reference policy's tape first, for example
-- `pcp:mode=fixed`. The slides that introduced the auto-tuning of 6.7 report 100 -> 20 for
-- kernel builds on a machine with 112 cores. If the lists are larger than the swing of the
-- load, auto-tuning saves little. `high_min` grows with memory per CPU: on a machine with few
-- CPUs and much memory, fixed lists serve nearly as well.
--
-- For a recording and its replay the report counts the same span. Tapes from before 5.19 do
-- not mark refills: all pages count as direct.
--
-- Tapes: several
-- Needs: event.alloc_zone_locked or event_count or counter
-- Tier: A
--
-- Columns:
--   tape         VARCHAR  The tape.
--   policy       VARCHAR  Kernel and policy of the replay, or recorded.
--   alloc_pages  BIGINT   Pages allocated.
--   taken        BIGINT   Pages taken from the buddy.
--   refilled     BIGINT   Pages taken by refills of the lists.
--   direct       BIGINT   Pages taken past the lists.
--   drained      BIGINT   Pages the lists gave back.
--   refills      BIGINT   Refills; null for a recording.
--   lock_holds   BIGINT   Times the zone lock was taken; null for a recording.
--   traffic      DOUBLE   Pages taken, relative to the first tape = 100.
--   locking      DOUBLE   Times the lock was taken, relative to the first tape = 100.
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
        CASE WHEN replayed THEN concat_ws(', ', model_kernel || ' (' || model_releases || ')', policy) ELSE 'recorded' END AS policy,
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
    *,
    greatest(taken - refilled, 0) AS direct,
    round(100 * taken / nullif(first(taken) OVER (ORDER BY place), 0), 1) AS traffic,
    round(100 * lock_holds / nullif(first(lock_holds) OVER (ORDER BY place), 0), 1) AS locking
FROM counted
ORDER BY place

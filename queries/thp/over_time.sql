-- Allocations of pageblock order over time: asked for and served, tape by tape.
--
-- `requests` counts every allocation of pageblock order, of page faults and of the kernel. One fault may ask
-- more than once: first on its own node, then elsewhere. `fault_*` are the kernel's own counters of page
-- faults, from samples of /proc (`record --sample`): a fault counts once. A sample counts in the slice
-- in which it was read, also after the last event; samples whose files share one stamp do not count. Slices without a request or sample have no row. Where
-- allocations were not recorded, the counts of requests are empty.
--
-- Several recordings of one load, in their order, show how success decays: read `tape_percent` and
-- `change_points`. The first tape is the base.
--
-- Tapes: several
-- Replay: served and failed count events: a request that failed on the recording gets no block, also where the model has one; tape_percent and `compare` count these as served
-- Needs: event.alloc or sample
-- Tier: A
--
-- Parameters:
--   interval_ms  BIGINT 1..9000000000000 = 1000  Width of one row in milliseconds.
--
-- Columns:
--   tape             VARCHAR  The tape.
--   at_s             DOUBLE   Start of the interval, seconds after the tape's first event.
--   requests         BIGINT   Allocations of pageblock order.
--   served           BIGINT   Of these, allocations that got a block.
--   failed           BIGINT   Of these, allocations that got none.
--   success_percent  DOUBLE   served of requests, in percent.
--   tape_percent     DOUBLE   The same for the whole tape, in percent; of a replay by the blocks that the model has (table huge_request).
--   change_points    DOUBLE   tape_percent minus that of the first tape, in percentage points.
--   fault_allocs     BIGINT   Page faults that got a huge page (thp_fault_alloc); null without samples.
--   fault_fallbacks  BIGINT   Page faults that got none (thp_fault_fallback); null without samples.
WITH asked AS MATERIALIZED (
    SELECT
        e.tape,
        (e.ts - m.start_ts)::BIGINT // (1000000 * greatest($interval_ms::BIGINT, 1)) AS slice,
        count(*) AS requests,
        count(e.pfn) AS served
    FROM event AS e
    JOIN machine AS m USING (tape)
    WHERE e.kind = 'alloc' AND e.page_order = m.pageblock_order
    GROUP BY ALL
),

counter AS (
    SELECT
        tape,
        ts,
        name,
        value - lag(value) OVER (PARTITION BY tape, name ORDER BY ts) AS nr
    FROM vmstat_reading
    WHERE name IN ('thp_fault_alloc', 'thp_fault_fallback')
),

sampled AS (
    SELECT tape, (greatest(s.ts, m.start_ts) - m.start_ts)::BIGINT // (1000000 * greatest($interval_ms::BIGINT, 1)) AS slice
    FROM (SELECT DISTINCT tape, ts FROM sample WHERE node IS NULL AND began IS NOT NULL) AS s
    JOIN machine AS m USING (tape)
    WHERE m.start_ts IS NOT NULL
    GROUP BY ALL
),

faulted AS (
    SELECT
        c.tape,
        (greatest(c.ts, m.start_ts) - m.start_ts)::BIGINT // (1000000 * greatest($interval_ms::BIGINT, 1)) AS slice,
        sum(c.nr) FILTER (c.name = 'thp_fault_alloc') AS allocs,
        sum(c.nr) FILTER (c.name = 'thp_fault_fallback') AS fallbacks
    FROM counter AS c
    JOIN machine AS m USING (tape)
    WHERE c.nr IS NOT NULL
    GROUP BY ALL
),

whole AS (
    SELECT
        m.tape,
        m.place,
        -- The count of an interval without a request: null if none was recorded.
        CASE
            WHEN m.replayed
            OR coalesce(
                list_contains(any_value(m.recorded), 'kmem:mm_page_alloc'),
                m.tape IN (SELECT DISTINCT tape FROM event WHERE kind = 'alloc')
            ) THEN 0::BIGINT
        END AS none,
        coalesce(
            100 * any_value(h.got) / nullif(any_value(h.asked), 0), 100 * sum(a.served) / nullif(sum(a.requests), 0)
        ) AS percent
    FROM machine AS m
    LEFT JOIN asked AS a USING (tape)
    LEFT JOIN huge_request AS h ON h.tape = m.tape AND h.page_order = m.pageblock_order
    GROUP BY m.tape, m.place, m.replayed
),

slice AS (
    SELECT tape, slice FROM asked
    UNION
    SELECT tape, slice FROM faulted WHERE allocs > 0 OR fallbacks > 0
)

SELECT
    w.tape,
    (s.slice * greatest($interval_ms::BIGINT, 1) / 1000)::DOUBLE AS at_s,
    coalesce(a.requests, w.none) AS requests,
    coalesce(a.served, w.none) AS served,
    coalesce(a.requests - a.served, w.none) AS failed,
    round(100 * a.served / a.requests, 1) AS success_percent,
    round(w.percent, 1) AS tape_percent,
    round(w.percent - (SELECT percent FROM whole ORDER BY place LIMIT 1), 1) AS change_points,
    CASE WHEN d.slice IS NOT NULL THEN coalesce(f.allocs, 0) END::BIGINT AS fault_allocs,
    CASE WHEN d.slice IS NOT NULL THEN coalesce(f.fallbacks, 0) END::BIGINT AS fault_fallbacks
FROM slice AS s
JOIN whole AS w USING (tape)
LEFT JOIN asked AS a USING (tape, slice)
LEFT JOIN faulted AS f USING (tape, slice)
LEFT JOIN sampled AS d USING (tape, slice)
ORDER BY w.place, s.slice

-- Allocations, frees and zone-lock traffic over time.
--
-- Each interval from the first event to the last has a row, also one without an event.
--
-- Needs: event.alloc or event or event_count
-- Tier: A
--
-- Parameters:
--   interval_ms  BIGINT 1..9000000000000 = 1000  Width of one row in milliseconds.
--
-- Columns:
--   at_s          DOUBLE  Start of the interval, seconds after the tape's first event.
--   allocs        BIGINT  Allocations, failed ones included.
--   alloc_pages   BIGINT  Pages allocated.
--   frees         BIGINT  Frees.
--   free_pages    BIGINT  Pages freed.
--   zone_locked   BIGINT  Pages taken from the buddy lists under the zone lock.
--   drained       BIGINT  Pages returned from the per-CPU lists under the zone lock.
WITH
-- Every interval, if the tape records page events: none in an interval is a 0.
slice AS (
    SELECT tape, unnest(interval_numbers(start_ts, end_ts, $interval_ms)) AS at_interval
    FROM machine
    WHERE replayed
        OR tape IN (SELECT tape FROM tracepoint WHERE name IN ('mm_page_alloc', 'mm_page_free', 'mm_page_alloc_zone_locked', 'mm_page_pcpu_drain'))
        OR EXISTS (FROM event)
),

-- One pass over the events counts them, with this interval_ms (analyze/sequence/event_counts.h).
counted AS (
    SELECT
        tape,
        "interval"::BIGINT AS at_interval,
        kind::VARCHAR AS kind,
        sum(events)::BIGINT AS nr,
        sum(with_page)::BIGINT << coalesce(page_order, 0)::INTEGER AS pages
    FROM sequence_event_count
    WHERE interval_ms = $interval_ms::BIGINT
    GROUP BY tape, at_interval, kind, page_order
)

SELECT
    at_interval * greatest($interval_ms::BIGINT, 1) / 1000 AS at_s,
    coalesce(sum(nr) FILTER (kind = 'alloc'), 0)::BIGINT AS allocs,
    coalesce(sum(pages) FILTER (kind = 'alloc'), 0)::BIGINT AS alloc_pages,
    coalesce(sum(nr) FILTER (kind = 'free'), 0)::BIGINT AS frees,
    coalesce(sum(pages) FILTER (kind = 'free'), 0)::BIGINT AS free_pages,
    coalesce(sum(pages) FILTER (kind = 'alloc_zone_locked'), 0)::BIGINT AS zone_locked,
    coalesce(sum(pages) FILTER (kind = 'pcpu_drain'), 0)::BIGINT AS drained
FROM slice
LEFT JOIN counted USING (tape, at_interval)
GROUP BY at_interval
ORDER BY at_interval

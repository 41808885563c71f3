-- Page events by kind, with the pages they moved.
--
-- free_batched repeats the free event of a page and has no order: ignore it when you
-- count frees. The ratio of alloc to alloc_zone_locked shows how well the per-CPU lists
-- shield the zone lock.
--
-- Tier: A
--
-- Columns:
--   kind        VARCHAR  Tracepoint name without the prefix mm_page_.
--   nr          BIGINT   Events.
--   pages       BIGINT   Pages of the events that have an order and a page.
--   per_second  DOUBLE   Events per second of the recording: from its first event or snapshot to its last.
WITH counted AS (
    SELECT kind, page_order, count(*) AS nr, count(pfn) << page_order::INTEGER AS pages
    FROM event
    GROUP BY kind, page_order
    UNION ALL
    SELECT kind, page_order, events, (events - without_page) << page_order::INTEGER FROM event_count
)

SELECT
    c.kind,
    sum(c.nr)::BIGINT AS nr,
    sum(c.pages)::BIGINT AS pages,
    round(sum(c.nr) * 1e9 / any_value(nullif(greatest(m.end_ts, s.until) - least(m.start_ts, s.since), 0)), 1) AS per_second
FROM counted AS c, machine AS m, (SELECT min(ts) AS since, max(ts) AS until FROM snapshot WHERE ts > 0) AS s
GROUP BY c.kind
ORDER BY nr DESC, c.kind

-- Page events by kind, with the pages they moved.
--
-- free_batched repeats a free of the same page and tells no order: leave it out
-- when counting frees. alloc / alloc_zone_locked is how well the per-CPU lists
-- shield the zone lock.
--
-- Tier: A
--
-- Columns:
--   kind        VARCHAR  Tracepoint, without its mm_page_.
--   nr          BIGINT   Events.
--   pages       BIGINT   Pages, where the event has an order and a page.
--   per_second  DOUBLE   Events per second of the tape.
SELECT
    e.kind,
    count(*) AS nr,
    sum(1::BIGINT << e.page_order::INTEGER) FILTER (e.pfn IS NOT NULL)::BIGINT AS pages,
    round(count(*) / nullif((any_value(m.end_ts) - any_value(m.start_ts)) / 1e9, 0), 1) AS per_second
FROM event AS e
JOIN machine AS m USING (tape)
GROUP BY e.kind
ORDER BY nr DESC, e.kind

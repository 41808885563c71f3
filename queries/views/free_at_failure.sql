-- Free pages of each zone when requests failed, one row for each time and zone.
--
-- The count is that of the view zone_free. A tape without events of the per-CPU lists has no rows: it shows no change.
--
-- Columns:
--   tape          VARCHAR    Name of the tape.
--   node          USMALLINT  NUMA node.
--   zone          VARCHAR    Zone.
--   ts            UBIGINT    Time at which a request failed, trace clock in ns.
--   free_pages    BIGINT     Free pages after the last event until then; per-CPU lists are not free.
--   error_pages   BIGINT     Error of the count at the next reading, in pages; null after the last one, and without page events.
--   widest_pages  BIGINT     Largest error of the zone at any reading, without its sign; null without an error.
SELECT tape, node, zone::VARCHAR AS zone, ts, free_pages, error_pages, widest_pages
FROM sequence_free_at_failure

-- Page events of an archive's tapes, counted by kind, order, migratetype, node and zone.
--
-- Columns:
--   tape          BIGINT   Number of the tape; see fleet_tape.
--   kind          VARCHAR  As in event.
--   page_order    INTEGER  As in event.
--   migratetype   VARCHAR  As in event.
--   node          INTEGER  NUMA node; null if no snapshot of the tape shows it.
--   zone          VARCHAR  Zone; null if no snapshot of the tape shows it.
--   events        BIGINT   Number of events.
--   without_page  BIGINT   Of these, events without a page: of alloc, failed requests.
SELECT
    *,
    (segment::BIGINT << 32) | number AS tape
FROM archived_event

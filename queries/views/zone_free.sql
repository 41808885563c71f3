-- Free pages of each zone at every event that changes them, one row each.
--
-- The count goes from one reading to the next: a snapshot, or a sample of /proc. A sample is the sum of the free
-- lists, which the kernel prints under the zone's lock; the counter in zoneinfo, which lacks what CPUs have not
-- folded in yet, is used only where the tape has no lists. Samples whose files share one stamp are left out.
--
-- In between, these pages leave the count: of alloc_zone_locked; of fallbacks that take a page without that event
-- (__rmqueue_fallback since 6.10); those that compaction isolates as targets, if its events are on the tape; and those
-- that a task which compacts captures as they become free (__free_one_page, compaction_capture, since 5.1). Those of
-- pcpu_drain and of frees past the per-CPU lists join it. Other isolation moves free pages without an event:
-- `error_pages` is what the count has too many at the next reading. It grows from 0 between the two readings. A
-- snapshot of unknown time counts as taken at the first event of the tape, or at the last.
--
-- One pass over the events finds the rows (analyze/sequence/zone_free.h). At equal times a reading comes first, then
-- page events, then compaction.
--
-- Columns:
--   tape                VARCHAR    Name of the tape.
--   place               UINTEGER   Number of the zone on its tape.
--   node                USMALLINT  NUMA node.
--   zone                VARCHAR    Zone.
--   ts                  UBIGINT    Trace clock, ns.
--   free_pages          BIGINT     Free pages after the event; per-CPU lists are not free.
--   reading             BOOLEAN    The row is a reading, not an event.
--   error_pages         BIGINT     Error at the next reading, in pages; null after the last one, and without page events.
--   widest_pages        BIGINT     Largest error of the zone at any reading, without its sign; null without an error.
--   next_ts             UBIGINT    Time of the next reading of the zone; null after the last one.
--   before_ts           UBIGINT    Time of the row before of the zone; null for its first row.
--   before_pages        BIGINT     Its free_pages.
--   before_error_pages  BIGINT     Its error_pages.
--   before_reading      BOOLEAN    Its reading.
SELECT
    tape,
    place,
    node,
    zone::VARCHAR AS zone,
    ts,
    free_pages,
    reading,
    error_pages,
    widest_pages,
    next_ts,
    before_ts,
    before_pages,
    before_error_pages,
    before_reading
FROM sequence_zone_free

-- Which rare events each recording of an archive could have: one row for each tape and measure.
--
-- A rate per hour is of the hours of the tapes with that measure. Tapes that cannot be read, that cover no time, and
-- replays have no rows.
--
-- Columns:
--   tape     BIGINT   Number of the tape; see fleet_tape.
--   measure  VARCHAR  fallbacks, allocs, reclaim or compaction: their tracepoints were recorded; or counters of /proc/vmstat.
SELECT
    tape,
    unnest(list_filter(
        [
            if(was_recorded(recorded, 'kmem:mm_page_alloc_extfrag'), 'fallbacks', NULL),
            if(was_recorded(recorded, 'kmem:mm_page_alloc'), 'allocs', NULL),
            if(was_recorded(recorded, 'vmscan:mm_vmscan_direct_reclaim_begin'), 'reclaim', NULL),
            if(was_recorded(recorded, 'compaction:mm_compaction_begin'), 'compaction', NULL),
            if(counters, 'counters', NULL)
        ],
        lambda measure: measure IS NOT NULL
    )) AS measure
FROM fleet_tape
WHERE problem IS NULL AND NOT replayed AND hours > 0

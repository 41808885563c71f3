-- Groups of events: those of a thread on a CPU with the same kind, order, migratetype and flags, one row each.
--
-- One pass over the events counts them, for all queries of a command (analyze/sequence/event_groups.h). A recording has
-- thousands of groups.
--
-- Columns:
--   tape                  VARCHAR    Name of the tape.
--   played                BOOLEAN    The events lie in the span that a replay covers (view played).
--   recorder              BOOLEAN    The thread belongs to the process that recorded the tape.
--   in_interrupt          BOOLEAN    The events came from hard or soft interrupt context.
--   kind                  VARCHAR    As in event.
--   cpu                   USMALLINT  CPU.
--   pid                   INTEGER    Thread.
--   page_order            UTINYINT   As in event.
--   migratetype           VARCHAR    As in event.
--   gfp_flags             UINTEGER   As in event.
--   percpu_refill         BOOLEAN    As in event.
--   fallback_order        UTINYINT   As in event.
--   fallback_migratetype  VARCHAR    As in event.
--   change_ownership      BOOLEAN    As in event.
--   events                BIGINT     Number of events.
--   without_page          BIGINT     Of these, events without a page: of alloc, failed requests.
--   runs                  BIGINT     Events that begin a run of refills or drains; see the report metrics.
--   first_ts              UBIGINT    Trace clock of the first event without a page, ns; null if there is none.
--   last_ts               UBIGINT    The same of the last one.
SELECT
    * REPLACE (
        if(without_page > 0, first_ts, NULL) AS first_ts,
        if(without_page > 0, last_ts, NULL) AS last_ts
    )
FROM sequence_event_group

-- Tapes of an archive, one row each: the machine, the time, the size, and what was recorded.
--
-- `pagetape compact` makes the rows. The columns can be used in --where and --by of reports about an archive. A tape
-- without events has a row, so its hours count. Views fleet_* have no rows where tapes are given instead of an archive.
--
-- Columns:
--   tape             BIGINT     Number of the tape in this question. It joins the views fleet_*.
--   tapes            BIGINT     Tapes of the row: 1, or in a report all those of a host and a day.
--   identity         VARCHAR    Identity of the recording, 32 hexadecimal digits.
--   object           VARCHAR    Name of the tape in the archive.
--   date             VARCHAR    UTC day of its begin, as 2026-11-29, or unknown.
--   shard            VARCHAR    First two digits of the identity.
--   bytes            BIGINT     Size of the tape.
--   etag             VARCHAR    The store's mark of its content.
--   problem          VARCHAR    Why the tape cannot be read; null if it can. Such a tape has no other facts and no hours.
--   machine          VARCHAR    Hash that stands for the machine.
--   host             VARCHAR    Name of the machine; null if unknown.
--   kernel           VARCHAR    Kernel release.
--   kernel_row       VARCHAR    Row of `pagetape kernels`.
--   arch             VARCHAR    Architecture.
--   cpus             INTEGER    CPUs.
--   nodes            INTEGER    NUMA nodes.
--   mem_gb           DOUBLE     Memory that the allocator manages, in GiB; null without a snapshot.
--   pageblock_order  INTEGER    Order of a pageblock.
--   fallback_unit    VARCHAR    What one fallback that steals stands for: block or page; null if unknown.
--   event_set        VARCHAR    Event set of the recording; null if unknown.
--   recorded         VARCHAR    Tracepoints that the recording enabled, as kmem:mm_page_alloc, with blanks between; null if unknown.
--   snapshot         VARCHAR    Source of the state at the start: exact, proc or none.
--   private          VARCHAR    hash or drop, if the tape is private; else null.
--   replayed         BOOLEAN    The tape is a replay.
--   boot             VARCHAR    Hash of the boot.
--   sysctls          VARCHAR    Settings as JSON: sysctls ->> '$."vm.swappiness"' is one of them.
--   began            TIMESTAMP  Begin, UTC; null if unknown.
--   ended            TIMESTAMP  End, UTC; null if unknown.
--   hours            DOUBLE     Hours that the tape covers.
--   lost             BIGINT     Lost events; null if unknown.
--   events           BIGINT     Events in the tape's tables.
--   page_events      BIGINT     Of these, events of pages.
--   counters         BOOLEAN    The tape has two readings of /proc/vmstat: fleet_counter has its changes.
SELECT
    * REPLACE (coalesce(tapes, 1) AS tapes),
    (segment::BIGINT << 32) | number AS tape,
    'v1/date=' || date || '/shard=' || left(identity, 2) || '/' || identity || '.tape' AS object,
    left(identity, 2) AS shard
FROM archived_tape

-- Waits for the locks of zones, one row each, as the kernel reports them.
--
-- A wait is an event `begin` with the next event of its CPU and lock, which is its `end`. Where that one is lost, or the
-- recording ended before it, `wait_ns` is null.
--
-- Columns:
--   tape     VARCHAR    Name of the tape.
--   ts       UBIGINT    Begin of the wait, trace clock in ns.
--   cpu      USMALLINT  CPU that waited.
--   pid      INTEGER    Thread that waited.
--   flags    UTINYINT   Context of the wait, as in `event`.
--   node     USMALLINT  NUMA node of the zone.
--   zone     VARCHAR    Zone.
--   wait_ns  BIGINT     Time until the CPU had the lock, in ns; null if unknown.
WITH followed AS (
    SELECT *, lead(kind) OVER following AS next_kind, lead(ts) OVER following AS next_ts
    FROM lock_event
    WHERE kind IN ('begin', 'end')
    WINDOW following AS (PARTITION BY tape, cpu, node, zone ORDER BY ts, kind = 'begin')
)

SELECT
    *,
    if(next_kind = 'end', next_ts - ts, NULL)::BIGINT AS wait_ns
FROM followed
WHERE kind = 'begin'

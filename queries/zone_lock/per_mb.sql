-- Work under the zone locks for each MB that requests asked for, by purpose.
--
-- Fewer holds can be more work, and more holds less: a policy such as `alloc_batch` changes the
-- size of the blocks that a hold moves. This report divides the modelled hold time (`--policy
-- zone_lock`) by the memory that requests got. Pages that a policy took for a request and that no
-- request used do not count as asked for: `unused_mb`. The rows of a tape add up to its row `all`,
-- which is the sum of `hold_ns` in the table zone_lock. Under `cpu_scale` the holds of all copies
-- count, and the MB of one. MB here is 2^20 bytes.
--
-- Tapes: several
-- Tier: A
--
-- Columns:
--   tape          VARCHAR  The tape.
--   kind          VARCHAR  Purpose of the holds, or all.
--   holds         BIGINT   Number of times a lock was taken.
--   blocks        BIGINT   Blocks moved under the locks.
--   hold_ns       BIGINT   Time that locks were held, in ns.
--   requested_mb  DOUBLE   Memory that requests got, in MB.
--   unused_mb     DOUBLE   Memory taken for requests that no request used, in MB.
--   ns_per_mb     DOUBLE   hold_ns for each MB requested.
WITH held AS (
    SELECT
        tape,
        coalesce(kind::VARCHAR, 'all') AS kind,
        sum(holds)::BIGINT AS holds,
        sum(blocks)::BIGINT AS blocks,
        sum(hold_ns)::BIGINT AS hold_ns
    FROM zone_lock
    GROUP BY GROUPING SETS ((tape, kind), (tape))
),

asked AS (
    SELECT
        tape,
        sum(alloc_pages) - coalesce(sum(alloc_batch_waste), 0) AS pages,
        coalesce(sum(alloc_batch_waste), 0) AS unused
    FROM counter
    GROUP BY tape
)

SELECT
    h.*,
    round(a.pages * m.page_size / 1048576, 2) AS requested_mb,
    round(a.unused * m.page_size / 1048576, 2) AS unused_mb,
    round(h.hold_ns / nullif(a.pages * m.page_size / 1048576, 0), 1) AS ns_per_mb
FROM held AS h
JOIN machine AS m USING (tape)
LEFT JOIN asked AS a USING (tape)
ORDER BY m.place, h.kind = 'all', h.kind

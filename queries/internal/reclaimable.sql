-- Movable requests whose pages reclaim freed on the tape, by their gfp flags.
--
-- Input of a replay with feedback (`replay --reclaim R1`): when its reclaim needs more pages than
-- the table `reclaimed` has, it takes the oldest pages of such requests. The rows become the table
-- `reclaimable`.
--
-- Columns:
--   gfp_flags  UINTEGER  Canonical gfp bits.
--   pages      UBIGINT   Null.
WITH alloc AS (
    SELECT row_number() OVER () - 1 AS place, kind, migratetype, gfp_flags
    FROM event
)

SELECT DISTINCT a.gfp_flags, NULL::UBIGINT AS pages
FROM alloc AS a
JOIN reclaimed AS r ON r.since = a.place
WHERE r.cause IN ('kswapd', 'direct', 'node_reclaim')
  AND a.kind = 'alloc'
  AND a.migratetype = 'MOVABLE'
ORDER BY a.gfp_flags

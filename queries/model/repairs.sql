-- What no event told, and validate took over, by cause. Only for tapes of validate -o.
--
-- Not every repair is a miss: most put the model right before it was asked. Read
-- `unexplained` first; `pagetape schema repair` tells what the others mean.
--
-- Tier: A
--
-- Columns:
--   node   USMALLINT  NUMA node.
--   zone   VARCHAR    Zone.
--   cause  VARCHAR    Why the model had to be put right.
--   nr     BIGINT     Repairs.
--   pages  BIGINT     Pages they concerned.
SELECT
    node,
    zone,
    cause,
    sum(nr)::BIGINT AS nr,
    sum(pages)::BIGINT AS pages
FROM repair
GROUP BY node, zone, cause
ORDER BY nr DESC, node, zone, cause

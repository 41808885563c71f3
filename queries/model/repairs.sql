-- Corrections of the model that validate made, by cause. Only for tapes of validate -o.
--
-- A repair takes over state that no event recorded. Not every repair is a miss: most precede
-- the first prediction that depends on them. Read `unexplained` first;
-- `pagetape schema repair` describes the other causes.
--
-- Tier: A
--
-- Columns:
--   node   USMALLINT  NUMA node.
--   zone   VARCHAR    Zone.
--   cause  VARCHAR    Cause of the repair.
--   nr     BIGINT     Number of repairs.
--   pages  BIGINT     Pages these repairs changed.
SELECT
    node,
    zone,
    cause,
    sum(nr)::BIGINT AS nr,
    sum(pages)::BIGINT AS pages
FROM repair
GROUP BY node, zone, cause
ORDER BY nr DESC, node, zone, cause

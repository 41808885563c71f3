-- Fallbacks by the order asked for and the order taken.
--
-- The larger the free page taken, the longer the allocator can go on in it before
-- it must raid again; that is why the kernel looks for the largest first. Many
-- fallbacks at small fallback_order mean that only scraps were left.
--
-- Tier: A
--
-- Columns:
--   alloc_order      UTINYINT  Order asked for.
--   fallback_order   UTINYINT  Order of the free page that was taken.
--   below_pageblock  BOOLEAN   The free page was smaller than a pageblock.
--   nr               BIGINT    How many times.
SELECT
    alloc_order,
    fallback_order,
    below_pageblock,
    count(*) AS nr
FROM extfrag
GROUP BY ALL
ORDER BY alloc_order, fallback_order

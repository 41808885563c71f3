-- Fallbacks by requested order and order taken.
--
-- The larger the free page, the longer the allocator can serve from it before the next
-- fallback; the kernel therefore looks for the largest free page first. Many fallbacks
-- at a small fallback_order mean that only small free pages were left.
--
-- Tier: A
--
-- Columns:
--   alloc_order      UTINYINT  Requested order.
--   fallback_order   UTINYINT  Order of the free page taken.
--   below_pageblock  BOOLEAN   The free page was smaller than a pageblock.
--   nr               BIGINT    Number of fallbacks.
SELECT
    alloc_order,
    fallback_order,
    below_pageblock,
    count(*) AS nr
FROM extfrag
GROUP BY ALL
ORDER BY alloc_order, fallback_order

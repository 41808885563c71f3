-- Net demand of each CPU for pages of its lists, bin by bin: pages allocated minus pages freed.
--
-- A list serves every swing of this curve that is smaller than the list. Only orders that the lists
-- serve count. A tape longer than 60 s has 60,000 bins.
--
-- Columns:
--   cpu    INTEGER  CPU.
--   pages  BIGINT   Pages allocated minus pages freed in one bin.
WITH width AS (
    SELECT tape, pageblock_order, greatest((end_ts - start_ts) // 60000, 1000000)::UBIGINT AS ns
    FROM machine
),

step AS (
    SELECT
        e.cpu,
        e.ts // w.ns AS bin,
        sum(CASE WHEN e.kind = 'alloc' THEN 1 ELSE -1 END * (1 << e.page_order::INTEGER))::BIGINT AS pages
    FROM event AS e
    JOIN width AS w USING (tape)
    WHERE e.kind IN ('alloc', 'free')
      AND e.pfn IS NOT NULL
      AND (e.page_order <= 3 OR e.page_order = w.pageblock_order)
    GROUP BY ALL
)

SELECT cpu::INTEGER AS cpu, pages
FROM step
WHERE pages <> 0
ORDER BY cpu, bin

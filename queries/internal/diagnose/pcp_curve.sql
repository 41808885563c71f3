-- Net demand of each CPU for pages of its lists, bin by bin: pages allocated minus pages freed.
--
-- A list serves every swing of this curve that is smaller than the list. Only orders that the lists
-- serve count. A tape longer than 60 s has 60,000 bins.
--
-- Columns:
--   cpu    INTEGER  CPU.
--   pages  BIGINT   Pages allocated minus pages freed in one bin.
SELECT cpu::INTEGER AS cpu, sum(pages)::BIGINT AS pages
FROM sequence_list_demand
GROUP BY tape, cpu, bin
HAVING sum(pages) <> 0
ORDER BY cpu, bin

-- Net demand of each CPU for pages of its lists, bin by bin: pages allocated minus pages freed.
--
-- A list serves every swing of this curve that is smaller than the list. Only orders that the lists
-- serve count. A tape longer than 60 s has 60,000 bins.
--
-- Columns:
--   cpu    INTEGER   CPU.
--   pages  BIGINT[]  Pages allocated minus pages freed in each bin that has any.
SELECT cpu::INTEGER AS cpu, list(pages ORDER BY bin) AS pages
FROM (SELECT tape, cpu, bin, sum(pages)::BIGINT AS pages FROM sequence_list_demand GROUP BY ALL)
WHERE pages <> 0
GROUP BY tape, cpu
ORDER BY cpu

-- Rows of a recording's snapshot that the end state of its free run has as well, by table.
--
-- Parameters:
--   recorded  VARCHAR  Name of the recording.
--   model     VARCHAR  Name of its free run.
--   snapshot  BIGINT   Number of the recording's snapshot.
--
-- Columns:
--   part  VARCHAR  free_block, pcp_page or pageblock.
--   nr    BIGINT   Rows of the recording.
--   same  BIGINT   Of these, rows that the free run has as well.
SELECT 'free_block' AS part, count(*) AS nr, count(m.pfn) AS same
FROM (SELECT * FROM free_block WHERE tape = $recorded AND snapshot = $snapshot) AS r
LEFT JOIN (SELECT * FROM free_block WHERE tape = $model AND snapshot = 1) AS m
    USING (node, zone, pfn, page_order, migratetype)
UNION ALL
SELECT 'pcp_page', count(*), count(m.pfn)
FROM (SELECT * FROM pcp_page WHERE tape = $recorded AND snapshot = $snapshot) AS r
LEFT JOIN (SELECT * FROM pcp_page WHERE tape = $model AND snapshot = 1) AS m
    USING (node, zone, cpu, pfn)
UNION ALL
SELECT 'pageblock', count(*), count(m.pfn)
FROM (SELECT * FROM pageblock WHERE tape = $recorded AND snapshot = $snapshot) AS r
LEFT JOIN (SELECT * FROM pageblock WHERE tape = $model AND snapshot = 1) AS m
    USING (node, zone, pfn, migratetype)

-- Free pages and pageblocks by migratetype and snapshot.
--
-- Source: /proc/pagetypeinfo, or the model's end state. `capped` means that the kernel
-- stopped counting a list: free_pages is a lower bound.
--
-- Tier: A
--
-- Columns:
--   snapshot     USMALLINT  Number of the snapshot: 0 is the start, the largest is the end.
--   at_s         DOUBLE     Seconds after the tape's first event; null where the time is unknown.
--   node         USMALLINT  NUMA node.
--   zone         VARCHAR    Zone.
--   migratetype  VARCHAR    Migratetype; unknown if only buddyinfo was readable.
--   free_pages   BIGINT     Pages on its free lists.
--   capped       BOOLEAN    free_pages is a lower bound.
--   nr_blocks    BIGINT     Pageblocks of this migratetype.
SELECT
    f.snapshot,
    CASE WHEN f.ts > 0 THEN round((f.ts::BIGINT - any_value(m.start_ts)::BIGINT) / 1e9, 3) + 0.0 END AS at_s,
    f.node,
    f.zone,
    f.migratetype,
    sum(f.nr_free << f.page_order::INTEGER)::BIGINT AS free_pages,
    bool_or(f.capped) AS capped,
    any_value(b.nr_blocks)::BIGINT AS nr_blocks
FROM free_area AS f
JOIN machine AS m USING (tape)
LEFT JOIN block_count AS b USING (snapshot, node, zone, migratetype)
GROUP BY f.snapshot, f.ts, f.node, f.zone, f.migratetype
ORDER BY f.snapshot, f.node, f.zone, f.migratetype

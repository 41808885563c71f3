-- Free pages and watermarks of each zone, over time.
--
-- Parameters:
--   machine_pid  BIGINT     Pid that stands for the page allocator; the zones come after it.
--   zones        VARCHAR[]  The kernel's zone names, lowest first.
--
-- Columns:
--   pid   BIGINT   Process of the track.
--   ts    UBIGINT  Trace clock, ns.
--   name  VARCHAR  The counter.
--   args  STRUCT   pages: its value.
WITH sampled AS (
    SELECT ts, node, zone, unnest(['free', 'free in whole pageblocks']) AS name,
        unnest([free_pages, usable_pages]) AS value
    FROM frag_index
    JOIN machine AS m USING (tape)
    WHERE page_order = m.pageblock_order AND snapshot IS NULL
    UNION ALL
    -- A timeline begins with the first event: what was there before it, was there at it.
    SELECT greatest(z.ts, m.start_ts), node, zone, 'free', free
    FROM zone AS z JOIN machine AS m USING (tape)
    UNION ALL
    SELECT greatest(z.ts, m.start_ts), node, zone,
        unnest(['watermark min', 'watermark low', 'watermark high']),
        unnest([wmark_min, wmark_low, wmark_high])
    FROM zone AS z JOIN machine AS m USING (tape)
    WHERE snapshot = 0
    UNION ALL
    SELECT ts, node, zone, replace(name, 'wmark_', 'watermark '), value
    FROM parameter
    WHERE name IN ('wmark_min', 'wmark_low', 'wmark_high')
),
level AS (
    SELECT ts, name, value,
        $machine_pid + 1 + node * len($zones::VARCHAR[])
            + list_position($zones::VARCHAR[], zone) AS track
    FROM sampled
)
SELECT track AS pid, ts, name,
    {'pages': value} AS args
FROM level
WHERE ts IS NOT NULL AND value IS NOT NULL
ORDER BY ALL

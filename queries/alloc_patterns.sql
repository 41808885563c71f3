-- Swings of each CPU's memory use, by window length: the load on its per-CPU lists.
--
-- The curve of a CPU is the pages it allocated minus the pages it freed, for the orders
-- that per-CPU lists serve, sampled every millisecond. `mean_pages` and `most_pages` are the
-- swings of this curve within windows of one length. A swing is a change that the curve
-- reverses within the window: a per-CPU list cannot serve steady growth or decline.
-- The class of a swing is
--
--   class 1  if the list may always hold it (high_min),
--   class 2  if an auto-tuned list may grow to it (high_max),
--   class 3  if no list holds it: the pages pass the zone lock.
--
-- Find the shortest window beyond which the swings no longer grow: its row shows the amplitude
-- and the period of the load. The default limits are those of the CPU's largest zone in
-- the first snapshot.
--
-- Tapes: several
-- Events: whole
-- Needs: event.alloc, event.free
-- Tier: A
--
-- Parameters:
--   high_min  BIGINT 0..1000000000  Pages a list may always hold. Default: from the snapshot.
--   high_max  BIGINT 0..1000000000  Pages a list may grow to. Default: from the snapshot.
--
-- Columns:
--   tape        VARCHAR    The tape.
--   cpu         USMALLINT  CPU.
--   window_s    DOUBLE     Length of the windows, in seconds.
--   windows     BIGINT     Number of windows.
--   mean_pages  DOUBLE     Mean swing, in pages.
--   most_pages  BIGINT     Largest swing, in pages.
--   class_1     BIGINT     Windows whose swing the list may always hold; null if the limits are unknown.
--   class_2     BIGINT     Windows whose swing only an auto-tuned list may hold.
--   class_3     BIGINT     Windows whose swing no list holds.
WITH step AS (
    SELECT
        tape,
        cpu,
        ts // 1000000 AS ms,
        sum(CASE WHEN kind = 'alloc' THEN 1 ELSE -1 END * (1 << page_order::INTEGER))::BIGINT AS pages
    FROM event
    JOIN machine USING (tape)
    WHERE kind IN ('alloc', 'free') AND pfn IS NOT NULL
      AND has_lists(page_order, pageblock_order, pcp_lists)
    GROUP BY tape, cpu, ms
),

curve AS (
    SELECT tape, cpu, ms, pages, sum(pages) OVER (PARTITION BY tape, cpu ORDER BY ms)::BIGINT AS level
    FROM step
),

-- Swing of a window: the range of the curve minus the change that remains at the end.
swing AS (
    SELECT
        tape,
        cpu,
        w.window_ms,
        greatest(max(level), arg_min(level - pages, ms))
        - least(min(level), arg_min(level - pages, ms))
        - abs(arg_max(level, ms) - arg_min(level - pages, ms)) AS pages
    FROM curve
    CROSS JOIN (VALUES (10), (100), (500), (1000), (5000), (10000)) AS w (window_ms)
    GROUP BY tape, cpu, w.window_ms, ms // w.window_ms
),

largest AS (
    SELECT
        tape,
        cpu,
        coalesce($high_min, max(coalesce(high_min, high)))::BIGINT AS high_min,
        coalesce($high_max, max(coalesce(high_max, high)))::BIGINT AS high_max
    FROM pcp
    WHERE snapshot = 0
    GROUP BY tape, cpu
),

bound AS (
    SELECT
        cpu_of.tape,
        cpu_of.cpu,
        coalesce(l.high_min, $high_min) AS high_min,
        coalesce(l.high_max, $high_max) AS high_max
    FROM (SELECT DISTINCT tape, cpu FROM step) AS cpu_of
    LEFT JOIN largest AS l USING (tape, cpu)
)

SELECT
    tape,
    cpu,
    window_ms / 1000 AS window_s,
    count(*) AS windows,
    round(avg(pages), 1) AS mean_pages,
    max(pages) AS most_pages,
    CASE WHEN count(high_max) > 0 THEN count(*) FILTER (pages <= high_min) END AS class_1,
    CASE WHEN count(high_max) > 0 THEN count(*) FILTER (pages > high_min AND pages <= high_max) END AS class_2,
    CASE WHEN count(high_max) > 0 THEN count(*) FILTER (pages > high_max) END AS class_3
FROM swing
JOIN bound USING (tape, cpu)
GROUP BY tape, cpu, window_ms
ORDER BY tape, cpu, window_ms

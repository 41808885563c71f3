-- How far kswapd reclaims beyond the high watermark, per pass.
--
-- A pass begins with kswapd_wake and ends with the next wake or sleep of that kswapd. It has to free memory
-- until a zone of its node is above the high watermark; for an order above 0, also until a
-- block of that order is free. Pages freed beyond that are overshoot: read `over_percent` first. The report follows
-- the largest zone of each node. The overshoot of a pass is the free memory of that zone at the end above its
-- high watermark, at most what kswapd freed in the pass.
--
-- Free memory is counted from page events between readings of /proc (view free_at_kswapd). `error_pages` is how far
-- that count was off at a reading: a smaller overshoot means nothing. The watermarks are those
-- of the first snapshot, without boosts. A boost raises the target of kswapd. kswapd does not count CMA and HIGHATOMIC pages as
-- free: it stops later in a zone that has some. `unusable_pages` is their largest number at a snapshot; a smaller overshoot means nothing.
--
-- Needs: reclaim.kswapd_wake, event.free, zone
-- Events: whole
-- Tier: B
--
-- Columns:
--   node            SMALLINT  NUMA node.
--   page_order      TINYINT   Order that the passes were for.
--   passes          BIGINT    Passes that end on the tape.
--   zone            VARCHAR   Largest zone of the node, which the report follows.
--   high_pages      BIGINT    Its high watermark, in pages.
--   freed_pages     BIGINT    Pages that kswapd freed in these passes.
--   begun_above     BIGINT    Passes that began with free memory above high_pages.
--   ended_above     BIGINT    Passes that ended with free memory above high_pages.
--   over_pages      BIGINT    Overshoot of all passes, in pages.
--   over_percent    DOUBLE    over_pages of freed_pages, in percent; 0 is a kswapd that stops at the watermark.
--   p50_over_pages  BIGINT    Median overshoot of a pass, in pages.
--   p90_over_pages  BIGINT    90th percentile, in pages.
--   most_over_pages BIGINT    Largest overshoot, in pages.
--   worst_at_s      DOUBLE    Begin of that pass, seconds after the tape's first event.
--   error_pages     BIGINT    Largest error of the count of free memory of the zone at a reading, in pages.
--   unusable_pages      BIGINT    Most free pages of the zone at a snapshot that kswapd does not count; null if unknown.
WITH pass AS MATERIALIZED (
    SELECT tape, node, pid, ts, page_order, next_ts AS until_ts
    FROM kswapd_step
    WHERE kind = 'kswapd_wake' AND next_ts IS NOT NULL AND node >= 0
),

freed AS (
    SELECT
        p.tape,
        p.node,
        p.ts,
        sum(1::BIGINT << least(e.page_order::INTEGER, 20)) AS pages
    FROM (
        SELECT tape, ts, pid, page_order
        FROM event
        WHERE kind = 'free' AND (flags & 6) = 0 AND (tape, pid) IN (SELECT (tape, pid) FROM pass)
    ) AS e
    ASOF JOIN pass AS p ON p.tape = e.tape AND p.pid = e.pid AND p.ts <= e.ts
    WHERE e.ts <= p.until_ts
    GROUP BY p.tape, p.node, p.ts
),

mark AS MATERIALIZED (
    SELECT tape, node, arg_max(zone::VARCHAR, managed) AS zone, arg_max(wmark_high, managed)::BIGINT AS high
    FROM zone
    WHERE snapshot = 0 AND managed > 0
    GROUP BY tape, node
),

known AS MATERIALIZED (
    SELECT f.* FROM free_at_kswapd AS f JOIN mark AS k USING (tape, node, zone)
),

begun AS (
    SELECT p.tape, p.node, p.ts, p.pid, p.page_order, p.until_ts, k.free_pages
    FROM pass AS p
    JOIN known AS k ON k.tape = p.tape AND k.node = p.node AND k.ts = p.ts
),

found AS (
    SELECT p.tape, p.node, p.ts, p.page_order, p.free_pages AS free_begin, k.free_pages AS free_end
    FROM begun AS p
    JOIN known AS k ON k.tape = p.tape AND k.node = p.node AND k.ts = p.until_ts
),

judged AS (
    SELECT
        f.tape,
        f.node,
        f.page_order,
        f.ts,
        k.zone,
        k.high,
        coalesce(r.pages, 0)::BIGINT AS freed,
        f.free_begin > k.high AS begun_above,
        f.free_end > k.high AS ended_above,
        least(greatest(f.free_end - k.high, 0), coalesce(r.pages, 0))::BIGINT AS over
    FROM found AS f
    JOIN mark AS k USING (tape, node)
    LEFT JOIN freed AS r USING (tape, node, ts)
)

SELECT
    j.node::SMALLINT AS node,
    j.page_order,
    count(*) AS passes,
    any_value(j.zone) AS zone,
    any_value(j.high) AS high_pages,
    sum(j.freed)::BIGINT AS freed_pages,
    count(*) FILTER (j.begun_above) AS begun_above,
    count(*) FILTER (j.ended_above) AS ended_above,
    sum(j.over)::BIGINT AS over_pages,
    round(100 * sum(j.over) / nullif(sum(j.freed), 0), 1) AS over_percent,
    quantile_disc(j.over, 0.5) AS p50_over_pages,
    quantile_disc(j.over, 0.9) AS p90_over_pages,
    max(j.over) AS most_over_pages,
    round((first(j.ts ORDER BY j.over DESC, j.ts)::BIGINT - any_value(m.start_ts)::BIGINT) / 1e9, 3) AS worst_at_s,
    any_value(e.pages) AS error_pages,
    any_value(h.pages) AS unusable_pages
FROM judged AS j
JOIN machine AS m USING (tape)
LEFT JOIN (
    SELECT tape, node, max(widest_pages) AS pages FROM known GROUP BY tape, node
) AS e ON e.tape = j.tape AND e.node = j.node
LEFT JOIN zone_unusable AS h ON h.tape = j.tape AND h.node = j.node AND h.zone = j.zone
GROUP BY j.node, j.page_order
ORDER BY j.node, j.page_order

-- Free memory of each sample beside the count of the page events at the same time.
--
-- The count begins at the reading before: a snapshot, or a sample (view zone_free). While /proc/buddyinfo is read,
-- between `began` and `ts`, events change free memory: `spread_pages` is by how much. A larger difference
-- means that pages moved without an event (compaction, isolation, or free page reporting, which takes up to 32
-- blocks of a guest off the free lists for a moment), that events are lost, or that the reading is wrong. Samples after the last event are left out, and those whose files share one stamp.
--
-- Needs: free_count.began, event.alloc_zone_locked
-- Events: whole
-- Tier: A
--
-- Columns:
--   at_s              DOUBLE   Time of the sample, seconds after the tape's first event.
--   since_s           DOUBLE   Time since the sample before, in seconds; null for the first.
--   reading_us        DOUBLE   Time that the reading of the free lists took, in microseconds.
--   free_pages        BIGINT   Free pages of the machine by the sample.
--   counted_pages     BIGINT   Free pages by the events at that time.
--   difference_pages  BIGINT   counted_pages minus free_pages.
--   spread_pages      BIGINT   Change of the count during the reading: largest minus smallest, summed over the zones.
--   agrees            BOOLEAN  The difference is at most spread_pages, or 1 % of free_pages.
WITH reading AS (
    SELECT DISTINCT tape, node, zone::VARCHAR AS zone, began, ts FROM free_count WHERE began IS NOT NULL
),

-- The readings, and the counts shortly before one.
counted AS MATERIALIZED (
    SELECT
        tape,
        node,
        zone,
        ts,
        free_pages,
        reading,
        next_ts,
        before_error_pages AS difference
    FROM zone_free
    WHERE reading OR next_ts - ts <= (SELECT max(greatest(ts, began) - began) FROM reading)
),

spread AS (
    SELECT r.tape, r.node, r.zone, r.ts, max(c.free_pages) - min(c.free_pages) AS pages
    FROM counted AS c
    JOIN reading AS r ON r.tape = c.tape AND r.node = c.node AND r.zone = c.zone AND r.ts = c.next_ts
    WHERE NOT c.reading AND c.ts >= r.began
    GROUP BY ALL
),

sampled AS (
    SELECT
        r.tape,
        r.ts,
        any_value(r.ts - r.began) AS ns,
        sum(c.free_pages)::BIGINT AS free,
        sum(c.difference)::BIGINT AS difference,
        coalesce(sum(s.pages), 0)::BIGINT AS spread
    FROM counted AS c
    JOIN reading AS r ON r.tape = c.tape AND r.node = c.node AND r.zone = c.zone AND r.ts = c.ts AND c.reading
    LEFT JOIN spread AS s ON s.tape = r.tape AND s.node = r.node AND s.zone = r.zone AND s.ts = r.ts
    GROUP BY r.tape, r.ts
)

SELECT
    round((s.ts::BIGINT - m.start_ts::BIGINT) / 1e9, 3) AS at_s,
    round((s.ts - lag(s.ts) OVER (ORDER BY s.ts)) / 1e9, 3) AS since_s,
    round(s.ns / 1e3, 1) AS reading_us,
    s.free AS free_pages,
    s.free + s.difference AS counted_pages,
    s.difference AS difference_pages,
    s.spread AS spread_pages,
    abs(s.difference) <= greatest(s.spread, s.free / 100) AS agrees
FROM sampled AS s
JOIN machine AS m USING (tape)
WHERE s.difference IS NOT NULL AND s.ts <= m.end_ts
ORDER BY s.ts

-- Pages allocated, freed, and moved to and from the buddy, and fallbacks, per second.
--
-- A run of a sweep stores only fallbacks: it has no other rates.
--
-- Parameters:
--   machine_pid  BIGINT  Pid that stands for the page allocator.
--   bin_ns       BIGINT 1000..1000000000000000000  Width of one interval, ns.
--
-- Columns:
--   pid   INTEGER  Process of the track.
--   ts    BIGINT   Trace clock, ns.
--   name  VARCHAR  The counter.
--   args  STRUCT   per second: its value; pages, or fallbacks.
WITH counted AS (
    SELECT (ts // $bin_ns)::BIGINT * $bin_ns AS ts,
        CASE kind WHEN 'alloc' THEN 'allocated' WHEN 'free' THEN 'freed'
        WHEN 'alloc_zone_locked' THEN 'taken from the buddy' WHEN 'pcpu_drain'
        THEN 'drained to the buddy' ELSE 'fallbacks' END AS name,
        sum(if(kind = 'alloc_extfrag', 1, 1::BIGINT << coalesce(page_order, 0))) AS nr
    FROM event
    WHERE kind != 'free_batched' AND NOT (kind = 'alloc' AND pfn IS NULL)
    GROUP BY ALL
),
span AS (
    SELECT (start_ts // $bin_ns)::BIGINT AS first, (end_ts // $bin_ns)::BIGINT + 2 AS past
    FROM machine
),
every AS (
    SELECT $bin_ns * unnest(
        CASE
            WHEN past - first <= 10000000 THEN range(first, past)
            ELSE error('bad parameter: the tape has more than 10 million intervals of ' || $bin_ns || ' ns')
        END
    ) AS ts
    FROM span
    WHERE past > first
)
SELECT $machine_pid AS pid, ts, name,
    {'per second': round(coalesce(nr, 0) * 1e9 / $bin_ns)} AS args
FROM every CROSS JOIN (SELECT DISTINCT name FROM counted)
LEFT JOIN counted USING (ts, name)
ORDER BY ALL

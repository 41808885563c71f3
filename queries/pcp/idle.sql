-- Memory idle in the per-CPU page lists, CPU by CPU. Only for replayed tapes.
--
-- Pages on a list are free, but only for that CPU. `mean_pages` is the mean length of the
-- list. `stranded_pages` is the part that did not move: the minimum length in the last
-- `stranded_s` seconds, averaged over time. Lists are last-in-first-out, so these are the same
-- pages. A drain takes pages from the other end: then fewer pages are stranded than the report
-- shows. A tape shorter than `stranded_s` has no stranded pages.
--
-- The model samples the lists every 10 ms; `most_pages` may miss a shorter swing.
--
-- Tapes: several
-- Tier: A
--
-- Parameters:
--   stranded_s  DOUBLE 0..1000000000 = 10  A page is stranded after this many seconds on the list.
--
-- Columns:
--   tape            VARCHAR    The tape.
--   cpu             USMALLINT  CPU.
--   node            USMALLINT  NUMA node of the zone.
--   zone            VARCHAR    Zone.
--   mean_pages      DOUBLE     Mean pages on the list.
--   most_pages      BIGINT     Maximum pages on the list.
--   last_high       BIGINT     The list's high at the end, in pages.
--   stranded_pages  DOUBLE     Mean number of stranded pages.
--   most_stranded   BIGINT     Maximum number of stranded pages.
WITH begin AS (
    SELECT tape, min(ts) AS ts FROM pcp_occupancy GROUP BY tape
),

held AS (
    SELECT tape, cpu, node, zone, ts, ts + duration_ns AS until, duration_ns, page_us, least, most, high
    FROM pcp_occupancy
),

untouched AS (
    SELECT
        now.tape,
        now.cpu,
        now.node,
        now.zone,
        now.ts,
        any_value(now.duration_ns) AS duration_ns,
        min(past.least) AS pages
    FROM held AS now
    JOIN begin AS b ON b.tape = now.tape AND now.until >= b.ts + ($stranded_s * 1e9)::UBIGINT
    JOIN held AS past
        ON past.tape = now.tape AND past.cpu = now.cpu AND past.node = now.node AND past.zone = now.zone
        AND past.ts <= now.ts AND past.until + ($stranded_s * 1e9)::UBIGINT > now.until
    GROUP BY ALL
),

stranded AS (
    SELECT
        tape,
        cpu,
        node,
        zone,
        sum(pages * duration_ns) / nullif(sum(duration_ns), 0) AS mean,
        max(pages) AS most
    FROM untouched
    GROUP BY ALL
)

SELECT
    tape,
    cpu,
    node,
    zone,
    round(sum(page_us) * 1000 / nullif(sum(duration_ns), 0), 1) AS mean_pages,
    max(h.most)::BIGINT AS most_pages,
    arg_max(high, ts)::BIGINT AS last_high,
    round(any_value(s.mean), 1) AS stranded_pages,
    any_value(s.most)::BIGINT AS most_stranded
FROM held AS h
LEFT JOIN stranded AS s USING (tape, cpu, node, zone)
GROUP BY tape, cpu, node, zone
ORDER BY tape, cpu, node, zone

-- Size of each per-CPU page list over time: pages and limits, recorded by the samples of /proc or modelled by a replay.
--
-- The kernel tunes `high` between `high_min` and `high_max` (6.7 and later); a list of `high` pages drains. Give a
-- recording and its replay to see both beside one another. /proc shows a list at one moment of each sample, the
-- model is read every 10 ms: compare `mean_pages`, not `least` and `most`.
--
-- Needs: pcp_occupancy or sample.began
-- Tapes: several
-- Tier: A
--
-- Parameters:
--   interval_ms  BIGINT 1..9000000000000 = 1000  Width of one row in milliseconds.
--
-- Columns:
--   tape        VARCHAR    The tape.
--   at_s        DOUBLE     Start of the interval, seconds after the tape's first event.
--   cpu         USMALLINT  CPU of the list.
--   node        USMALLINT  NUMA node.
--   zone        VARCHAR    Zone.
--   source      VARCHAR    recorded: samples of /proc/zoneinfo; modelled: the lists of the replay.
--   mean_pages  DOUBLE     Mean of the pages on the list.
--   least       BIGINT     Fewest pages.
--   most        BIGINT     Most pages.
--   high        BIGINT     Last count at which a free drains the list.
--   high_min    BIGINT     Its lower bound; null before 6.7, and of the model.
--   high_max    BIGINT     Its upper bound; null before 6.7, and of the model.
WITH moment AS (
    SELECT DISTINCT tape, ts FROM sample WHERE node IS NULL AND began IS NOT NULL
),

-- Values without a row at a sample have not changed.
known AS (
    SELECT tape, cpu, node, zone::VARCHAR AS zone, ts, name, value
    FROM sample
    WHERE name = 'pcp_count'
    UNION ALL
    SELECT tape, cpu, node, zone::VARCHAR, ts, name, value
    FROM parameter
    WHERE name IN ('pcp_high', 'pcp_high_min', 'pcp_high_max') AND began IS NOT NULL
    UNION ALL
    SELECT tape, cpu, node, zone::VARCHAR, ts, unnest.name, unnest.value
    FROM pcp,
        unnest([
            {'name': 'pcp_high', 'value': high::BIGINT},
            {'name': 'pcp_high_min', 'value': high_min::BIGINT},
            {'name': 'pcp_high_max', 'value': high_max::BIGINT}
        ]) AS limits (unnest)
    WHERE snapshot = 0 AND ts > 0
),

reading AS (
    SELECT m.tape, m.ts, l.cpu, l.node, l.zone, l.name, k.value
    FROM moment AS m
    JOIN (SELECT DISTINCT tape, cpu, node, zone, name FROM known) AS l USING (tape)
    ASOF JOIN known AS k
        ON k.tape = m.tape AND k.cpu = l.cpu AND k.node = l.node AND k.zone = l.zone AND k.name = l.name AND k.ts <= m.ts
),

recorded AS (
    SELECT
        tape,
        cpu,
        node,
        zone,
        (r.ts - m.start_ts)::BIGINT // (1000000 * greatest($interval_ms::BIGINT, 1)) AS slice,
        'recorded' AS source,
        avg(value) FILTER (name = 'pcp_count') AS mean_pages,
        min(value) FILTER (name = 'pcp_count') AS least,
        max(value) FILTER (name = 'pcp_count') AS most,
        arg_max(value, r.ts) FILTER (name = 'pcp_high') AS high,
        arg_max(value, r.ts) FILTER (name = 'pcp_high_min') AS high_min,
        arg_max(value, r.ts) FILTER (name = 'pcp_high_max') AS high_max
    FROM reading AS r
    JOIN machine AS m USING (tape)
    GROUP BY ALL
),

modelled AS (
    SELECT
        tape,
        cpu,
        node,
        zone::VARCHAR AS zone,
        (o.ts - m.start_ts)::BIGINT // (1000000 * greatest($interval_ms::BIGINT, 1)) AS slice,
        'modelled' AS source,
        sum(page_us) / nullif(sum(duration_ns) / 1e3, 0) AS mean_pages,
        min(least)::BIGINT AS least,
        max(most)::BIGINT AS most,
        arg_max(high, o.ts)::BIGINT AS high,
        NULL::BIGINT AS high_min,
        NULL::BIGINT AS high_max
    FROM pcp_occupancy AS o
    JOIN machine AS m USING (tape)
    GROUP BY ALL
)

SELECT
    * REPLACE (round(mean_pages, 1) AS mean_pages),
    (slice * greatest($interval_ms::BIGINT, 1) / 1000)::DOUBLE AS at_s
FROM (FROM recorded WHERE mean_pages IS NOT NULL UNION ALL FROM modelled)
ORDER BY slice, cpu, node, zone, tape, source DESC

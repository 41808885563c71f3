-- Who freed the pages: kswapd, tasks that had to reclaim, compaction, or their owners.
--
-- A free by a kswapd is kswapd's; a free between the begin and the end of a reclaim or
-- compaction of its thread is that one's. All others - exit, munmap, truncate, a driver
-- that is done - are `other`. What reclaim freed is what a replay with --reclaim R1
-- times anew. A page that compaction moved is freed where it was, by `compact`.
--
-- Tier: -
--
-- Columns:
--   cause       VARCHAR   kswapd, direct, node_reclaim, memcg, compact or other.
--   page_order  UTINYINT  Order of the pages freed.
--   frees       BIGINT    How many times.
--   pages       BIGINT    Pages they returned.
--   share       DOUBLE    Of all pages freed, 0 to 1.
WITH stretch AS MATERIALIZED (
    SELECT
        pid,
        cause,
        greatest(from_ts, (SELECT start_ts FROM machine)) AS from_ts,
        least(until_ts, (SELECT end_ts FROM machine)) AS until_ts
    FROM reclaim_window
),

-- Frees meet only the stretches of their thread and of the same 4 ms.
piece AS MATERIALIZED (
    SELECT pid, cause, from_ts, until_ts, unnest(range((from_ts >> 22)::BIGINT, (until_ts >> 22)::BIGINT + 1)) AS place
    FROM stretch
    WHERE cause <> 'kswapd'
),

freed AS MATERIALIZED (
    SELECT e.pid, e.ts, e.page_order, k.pid IS NOT NULL AS by_kswapd
    FROM event AS e
    LEFT JOIN (SELECT DISTINCT pid FROM stretch WHERE cause = 'kswapd') AS k USING (pid)
    WHERE e.kind = 'free'
),

caused AS MATERIALIZED (
    SELECT p.cause, f.page_order, count(*) AS frees
    FROM freed AS f
    JOIN piece AS p
        ON p.pid = f.pid
        AND p.place = (f.ts >> 22)::BIGINT
        AND f.ts BETWEEN p.from_ts AND p.until_ts
    WHERE NOT f.by_kswapd
    GROUP BY p.cause, f.page_order
    UNION ALL
    SELECT 'kswapd', page_order, count(*) FROM freed WHERE by_kswapd GROUP BY page_order
),

every AS (
    SELECT page_order, count(*) AS frees FROM freed GROUP BY page_order
),

answer AS (
    SELECT cause, page_order, frees FROM caused
    UNION ALL
    SELECT 'other', e.page_order, e.frees - coalesce(sum(c.frees), 0)::BIGINT AS others
    FROM every AS e
    LEFT JOIN caused AS c USING (page_order)
    GROUP BY e.page_order, e.frees
    HAVING others > 0
)

SELECT
    cause,
    page_order,
    frees,
    frees << page_order::INTEGER AS pages,
    round(pages / sum(pages) OVER (), 6) AS share
FROM answer
ORDER BY cause, page_order

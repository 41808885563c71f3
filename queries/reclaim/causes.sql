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
    SELECT tape, pid, from_ts, until_ts, cause FROM reclaim_window
),

reclaimer AS (
    SELECT DISTINCT pid FROM stretch
),

freed AS MATERIALIZED (
    SELECT tape, pid, ts, page_order FROM event WHERE kind = 'free'
),


-- Few threads ever reclaim: only their frees need a look at the clock.
caused AS MATERIALIZED (
    SELECT s.cause, f.page_order, count(*) AS frees
    FROM (SELECT freed.* FROM freed JOIN reclaimer USING (pid)) AS f
    ASOF JOIN stretch AS s
        ON s.tape = f.tape
        AND s.pid = f.pid
        AND f.ts >= s.from_ts
    WHERE f.ts <= s.until_ts
    GROUP BY s.cause, f.page_order
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

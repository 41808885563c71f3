-- Cause of each page free: kswapd, direct reclaim, compaction, or the pages' owners.
--
-- A free by a kswapd counts as kswapd. A free between begin and end of a thread's reclaim or
-- compaction counts as that cause. All others (exit, munmap, truncate, a driver) are
-- `other`. A replay with --reclaim R1 decides anew when reclaim frees its pages. A page that
-- compaction moves is freed at its old place, with the cause `compact`.
--
-- Events: whole
-- Needs: event.free, reclaim.direct_reclaim_begin
-- Tier: -
--
-- Columns:
--   cause       VARCHAR   kswapd, direct, node_reclaim, memcg, compact or other.
--   page_order  UTINYINT  Order of the freed pages.
--   frees       BIGINT    Number of frees.
--   pages       BIGINT    Pages freed.
--   share       DOUBLE    Share of all freed pages, 0 to 1.
WITH freed AS MATERIALIZED (
    SELECT e.tape, e.pid, e.ts, e.page_order, k.pid IS NOT NULL AS by_kswapd
    FROM event AS e
    LEFT JOIN (SELECT DISTINCT tape, pid FROM reclaim_window WHERE cause = 'kswapd') AS k USING (tape, pid)
    WHERE e.kind = 'free'
),

caused AS MATERIALIZED (
    SELECT s.cause, f.page_order, count(*) AS frees
    FROM freed AS f
    JOIN reclaim_slice AS s
        ON s.tape = f.tape
        AND s.pid = f.pid
        AND s.slice = (f.ts >> 22)::BIGINT
        AND f.ts BETWEEN s.from_ts AND s.until_ts
    WHERE NOT f.by_kswapd
    GROUP BY s.cause, f.page_order
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

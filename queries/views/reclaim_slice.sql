-- Stretches of reclaim and compaction, cut into slices of 4 ms, one row each.
--
-- To find the stretch of a page event without slices, DuckDB joins on time ranges: all events
-- with all stretches of their thread. Slices make this an equality join: an event at `ts`
-- meets only the stretches of its thread with slice = (ts >> 22)::BIGINT. Stretches that nothing
-- limits begin and end with the tape. A kswapd has no slices: it reclaims whenever it runs.
--
-- Columns:
--   tape      VARCHAR  Name of the tape.
--   pid       INTEGER  Thread.
--   cause     VARCHAR  direct, node_reclaim, memcg or compact.
--   from_ts   UBIGINT  First moment of the whole stretch, trace clock in ns.
--   until_ts  UBIGINT  Last moment of the whole stretch.
--   slice     BIGINT   Number of the 4 ms slice.
WITH stretch AS (
    SELECT
        w.tape,
        w.pid,
        w.cause,
        greatest(w.from_ts, m.start_ts) AS from_ts,
        least(w.until_ts, m.end_ts) AS until_ts
    FROM reclaim_window AS w
    JOIN machine AS m USING (tape)
    WHERE w.cause <> 'kswapd' AND m.start_ts IS NOT NULL
),

numbered AS (
    SELECT
        *,
        (from_ts >> 22)::BIGINT AS first,
        (until_ts >> 22)::BIGINT + 1 AS past,
        sum(greatest(past - first, 0)) OVER () AS slices
    FROM stretch
)

SELECT
    *,
    unnest(
        CASE
            WHEN slices <= 100000000 THEN range(first, past)
            ELSE error('the stretches of reclaim have more than 100 million slices of 4 ms')
        END
    ) AS slice
FROM numbered

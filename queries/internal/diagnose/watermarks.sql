-- Times that free memory fell below the low watermark, and below min.
--
-- An episode begins when kswapd starts after a sleep, and ends with its next sleep or with the tape. An
-- allocation that calls kswapd for a shortage found every allowed zone below its low watermark; a
-- direct reclaim for order 0 found every zone below min. Calls because of a watermark boost, and
-- direct reclaims for higher orders, prove no shortage.
--
-- Columns:
--   episodes     BIGINT  Episodes of all kswapds with a call for a shortage, or a direct reclaim for order 0.
--   stalled      BIGINT  Of these, episodes with a direct reclaim for order 0.
--   below_low    BIGINT  Calls for a shortage.
--   below_min    BIGINT  Direct reclaims for order 0.
--   freed_each   DOUBLE  Mean pages that a direct reclaim of any order freed; null without one.
WITH edge AS (
    SELECT
        tape,
        node,
        ts,
        kind,
        lead(ts) OVER (PARTITION BY tape, node ORDER BY ts) AS next_ts,
        lag(ts) OVER (PARTITION BY tape, node ORDER BY ts) AS before_ts
    FROM kswapd_step
    WHERE kind = 'kswapd_sleep' OR before IS DISTINCT FROM 'kswapd_wake'
),

-- The call that wakes kswapd comes before its first pass: the episode begins with its last sleep.
episode AS (
    SELECT
        tape,
        node,
        coalesce(before_ts, 0::UBIGINT) AS asleep_ts,
        coalesce(next_ts, 18446744073709551615::UBIGINT) AS until_ts
    FROM edge
    WHERE kind = 'kswapd_wake'
    UNION ALL
    SELECT tape, node, 0::UBIGINT, ts FROM edge WHERE before_ts IS NULL AND kind = 'kswapd_sleep'
),

low AS MATERIALIZED (
    SELECT tape, node, ts
    FROM reclaim
    WHERE kind = 'wakeup_kswapd' AND page_order = 0 AND gfp_flags <> 0
),

direct AS MATERIALIZED (
    SELECT tape, ts FROM reclaim WHERE kind = 'direct_reclaim_begin' AND page_order = 0
),

moment AS (
    SELECT tape, node, ts, false AS stalls FROM low
    UNION ALL
    SELECT d.tape, e.node, d.ts, true FROM direct AS d JOIN (SELECT DISTINCT tape, node FROM episode) AS e USING (tape)
),

-- The end of an episode is the begin of the next: a moment there is in both.
hit AS MATERIALIZED (
    SELECT DISTINCT m.stalls, e.node, e.asleep_ts
    FROM (SELECT *, unnest([ts, greatest(ts, 1) - 1]) AS since FROM moment) AS m
    ASOF JOIN episode AS e ON e.tape = m.tape AND e.node = m.node AND e.asleep_ts <= m.since
    WHERE m.ts <= e.until_ts
)

SELECT
    (SELECT count(DISTINCT (node, asleep_ts)) FROM hit) AS episodes,
    (SELECT count(*) FROM hit WHERE stalls) AS stalled,
    (SELECT count(*) FROM low) AS below_low,
    (SELECT count(*) FROM direct) AS below_min,
    (SELECT avg(nr_reclaimed) FROM reclaim WHERE kind = 'direct_reclaim_end') AS freed_each

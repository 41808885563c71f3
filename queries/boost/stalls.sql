-- Stalls of the policy stall.
--
-- The fifth patch of fragmentation avoidance v5 lets a MOVABLE request wait for kswapd before it
-- mixes migratetypes. Stalls are rare by design; `pagetape paper nofragment --table 'stalls of patch 5'`
-- has the published ones beside the model's. A tape with fewer than 10,000 MOVABLE fallbacks below
-- pageblock order cannot show more than single stalls: its verdict is `n too small`. `stall_ms` needs
-- feedback (R1); without it the policy only counts.
--
-- Tapes: several
-- Tier: B
--
-- Columns:
--   tape       VARCHAR  The tape.
--   minutes    DOUBLE   Length of the tape.
--   fallbacks  BIGINT   Fallbacks below pageblock order, with the policy.
--   movable    BIGINT   Those of MOVABLE requests.
--   refusals   BIGINT   Fallbacks that the policy refused or, without feedback, would refuse.
--   stalls     BIGINT   Allocations that waited or, without feedback, would wait.
--   stall_ms   DOUBLE   Time of these waits, in ms; null without feedback.
--   verdict    VARCHAR  counted, n too small, or no policy: the replay had no stall.
WITH mixed AS (
    SELECT
        e.tape,
        count(*) AS fallbacks,
        count(*) FILTER (e.migratetype = 'MOVABLE') AS movable
    FROM event AS e
    JOIN machine AS m USING (tape)
    WHERE e.kind = 'alloc_extfrag' AND e.fallback_order < m.pageblock_order
    GROUP BY e.tape
),

waited AS (
    SELECT
        tape,
        sum(stall_refusals)::BIGINT AS refusals,
        sum(stalls)::BIGINT AS stalls,
        sum(stall_us) / 1000 AS stall_ms
    FROM counter
    GROUP BY tape
)

SELECT
    m.tape,
    round((m.end_ts - m.start_ts) / 6e10, 2) AS minutes,
    coalesce(x.fallbacks, 0)::BIGINT AS fallbacks,
    coalesce(x.movable, 0)::BIGINT AS movable,
    w.refusals,
    w.stalls,
    round(w.stall_ms, 3)::DOUBLE AS stall_ms,
    CASE
        WHEN w.tape IS NULL OR NOT contains(coalesce(m.policy, ''), 'stall') THEN 'no policy'
        WHEN coalesce(x.movable, 0) + coalesce(w.refusals, 0) < 10000 THEN 'n too small'
        ELSE 'counted'
    END AS verdict
FROM machine AS m
LEFT JOIN mixed AS x USING (tape)
LEFT JOIN waited AS w USING (tape)
ORDER BY m.place

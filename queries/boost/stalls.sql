-- Stalls of the policy stall, beside those that its author published.
--
-- The fifth patch of fragmentation avoidance v5 lets a MOVABLE request wait for kswapd before it
-- mixes migratetypes. Stalls are rare by design: the published runs of 16 to 68 minutes, whose
-- fallbacks without the series are 166,352 to 804,694, stalled 2 to 462 times. A tape with fewer than
-- 10,000 MOVABLE fallbacks below pageblock order cannot show more than single stalls: its verdict is
-- `n too small`. `stall_ms` needs feedback (R1); without it the policy only counts.
--
-- Published rows: mail "[PATCH 5/5] mm: Stall movable allocations until kswapd progresses during
-- serious external fragmentation event", 23 November 2018, 4.20-rc3.
--
-- Tapes: several
--
-- Tier: B
--
-- Columns:
--   tape       VARCHAR  The tape, or the published load.
--   minutes    DOUBLE   Length of the run; null where it was not published.
--   fallbacks  BIGINT   Fallbacks below pageblock order, with the policy.
--   movable    BIGINT   Those of MOVABLE requests; null where it was not published.
--   refusals   BIGINT   Fallbacks that the policy refused or, without feedback, would refuse.
--   stalls     BIGINT   Allocations that waited or, without feedback, would wait.
--   stall_ms   DOUBLE   Time of these waits, in ms; null without feedback.
--   verdict    VARCHAR  published, counted, n too small, or no policy: the replay had no stall.
WITH published (place, tape, minutes, fallbacks, stalls, stall_ms) AS (
    VALUES
        (-4, 'published: 1 socket', 16, 16788, 2, 0.008),
        (-3, 'published: 1 socket, MADV_HUGEPAGE', 16, 15089, 102, 400),
        (-2, 'published: 2 sockets', NULL, 11702, 12, 0.076),
        (-1, 'published: 2 sockets, MADV_HUGEPAGE', 68, 10677, 462, 1900)
),

mixed AS (
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

SELECT tape, minutes, fallbacks, movable, refusals, stalls, stall_ms, verdict
FROM (
    SELECT
        place,
        tape,
        minutes::DOUBLE AS minutes,
        fallbacks::BIGINT AS fallbacks,
        NULL::BIGINT AS movable,
        NULL::BIGINT AS refusals,
        stalls::BIGINT AS stalls,
        stall_ms::DOUBLE AS stall_ms,
        'published' AS verdict
    FROM published
    UNION ALL
    SELECT
        m.place,
        m.tape,
        round((m.end_ts - m.start_ts) / 6e10, 2),
        coalesce(x.fallbacks, 0),
        coalesce(x.movable, 0),
        w.refusals,
        w.stalls,
        round(w.stall_ms, 3),
        CASE
            WHEN w.tape IS NULL OR NOT contains(coalesce(m.policy, ''), 'stall') THEN 'no policy'
            WHEN coalesce(x.movable, 0) + coalesce(w.refusals, 0) < 10000 THEN 'n too small'
            ELSE 'counted'
        END
    FROM machine AS m
    LEFT JOIN mixed AS x USING (tape)
    LEFT JOIN waited AS w USING (tape)
)
ORDER BY place

-- Migratetype-mixing fallbacks that each policy avoids.
--
-- Pass the recording, its replay under its own kernel and policy, and the what-ifs. The rows
-- count fallbacks below pageblock order: in total, by requested migratetype, and by both
-- migratetypes, order and kind. Read the order of the policies and the sign of `percent` first.
-- If the replay under the tape's own rules is among the tapes, the report compares each what-if
-- with it, otherwise with the first tape. A difference of at most `model_error` proves nothing.
--
-- `pagetape paper nofragment` has the figures of the authors of the 5.0 series beside the model's.
--
-- Tapes: several
-- Events: whole
-- Tier: A
--
-- Columns:
--   tape                  VARCHAR   Tape.
--   policy                VARCHAR   Kernel and policy of the replay, or recorded.
--   alloc_migratetype     VARCHAR   Requested migratetype; null is all.
--   fallback_migratetype  VARCHAR   Migratetype of the free list that lost the page; null is all.
--   fallback_order        UTINYINT  Order of the free page taken; null is all.
--   kind                  VARCHAR   claim or steal; null is both.
--   nr                    BIGINT    Fallbacks below pageblock order.
--   against               VARCHAR   Tape that the row is compared with.
--   percent               DOUBLE    Change in percent.
--   model_error           BIGINT    Error of the model: the recording minus its own replay, absolute.
--   boosts_asked          BIGINT    Watermark boosts that fallbacks asked for; only for replays.
--   kswapd_asked          BIGINT    Slow-path entries that call wakeup_kswapd; only for replays.
WITH run AS (
    SELECT
        tape,
        place,
        own,
        CASE WHEN replayed THEN concat_ws(', ', model_kernel || ' (' || model_releases || ')', policy) ELSE 'recorded' END AS policy,
        coalesce(
            CASE WHEN replayed AND NOT own THEN (SELECT arg_min(tape, place) FROM machine WHERE own) END,
            (SELECT arg_min(tape, place) FROM machine)
        ) AS against
    FROM machine
),

fallback AS (
    SELECT e.tape, alloc_migratetype, fallback_migratetype, fallback_order, kind, count(*) AS nr
    FROM extfrag AS e
    JOIN played AS p ON e.tape = p.tape AND e.ts BETWEEN p.since AND p.until
    WHERE below_pageblock
    GROUP BY ALL
),

-- Every kind on every tape: a missing kind is zero, not unknown.
cell AS (
    SELECT r.tape, k.*, coalesce(f.nr, 0) AS nr
    FROM run AS r
    CROSS JOIN (SELECT DISTINCT alloc_migratetype, fallback_migratetype, fallback_order, kind FROM fallback) AS k
    LEFT JOIN fallback AS f USING (tape, alloc_migratetype, fallback_migratetype, fallback_order, kind)
),

-- One count per tape and key; the key names the counted fallbacks.
counted AS (
    SELECT
        tape,
        {
            level: grouping(alloc_migratetype) + grouping(kind),
            alloc_migratetype: alloc_migratetype,
            fallback_migratetype: fallback_migratetype,
            fallback_order: fallback_order,
            kind: kind
        } AS key,
        sum(nr)::BIGINT AS nr
    FROM cell
    GROUP BY GROUPING SETS (
        (tape, alloc_migratetype),
        (tape, alloc_migratetype, fallback_migratetype, fallback_order, kind)
    )
    UNION ALL
    SELECT
        tape,
        {level: 2, alloc_migratetype: NULL, fallback_migratetype: NULL, fallback_order: NULL, kind: NULL},
        coalesce(sum(nr), 0)::BIGINT
    FROM run
    LEFT JOIN fallback USING (tape)
    GROUP BY tape
),

-- The recording against its own replay, if both are among the tapes.
known_error AS (
    SELECT key, abs(o.nr - r.nr) AS nr
    FROM counted AS o
    JOIN counted AS r USING (key)
    WHERE o.tape = (SELECT arg_min(tape, place) FROM run WHERE own)
      AND r.tape = (SELECT arg_min(tape, place) FROM run WHERE policy = 'recorded')
),

asked AS (
    SELECT tape, sum(boost_asks)::BIGINT AS boosts, sum(slowpath_wake_calls)::BIGINT AS kswapd
    FROM counter
    GROUP BY tape
),

ours AS (
    SELECT
        r.tape,
        r.place,
        r.policy,
        c.key,
        c.nr,
        CASE WHEN r.against <> r.tape THEN r.against END AS against,
        b.nr AS base,
        coalesce(k.nr, CASE WHEN c.key.level = 2 THEN abs(m.model - m.recorded) END) AS model_error,
        CASE WHEN c.key.level = 2 THEN a.boosts END AS boosts,
        CASE WHEN c.key.level = 2 THEN a.kswapd END AS kswapd
    FROM run AS r
    JOIN counted AS c USING (tape)
    JOIN counted AS b ON b.tape = r.against AND b.key = c.key
    LEFT JOIN known_error AS k ON k.key = c.key
    LEFT JOIN model_error AS m ON m.tape = r.tape AND m.metric = 'fallbacks below pageblock order'
    LEFT JOIN asked AS a ON a.tape = r.tape
)

SELECT
    *,
    key.alloc_migratetype AS alloc_migratetype,
    key.fallback_migratetype AS fallback_migratetype,
    key.fallback_order AS fallback_order,
    key.kind AS kind,
    CASE WHEN against IS NOT NULL THEN round(100 * (nr - base) / nullif(base, 0), 1) END AS percent,
    boosts AS boosts_asked,
    kswapd AS kswapd_asked
FROM ours
ORDER BY
    key.level DESC,
    key.alloc_migratetype,
    key.fallback_migratetype,
    key.fallback_order,
    key.kind,
    place

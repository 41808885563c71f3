-- What a policy saves of the fallbacks that mix migratetypes, beside the 5.0 series' own figures.
--
-- Give the recording, its replay under its own kernel and policy, and the what-ifs: their
-- fallbacks below pageblock order, in all, by the migratetype asked for, and split up. Read
-- the order of the policies and the sign of `percent` first. A what-if is held against the
-- replay under the tape's own rules where that is among the tapes, else against the first
-- tape; one that differs by no more than `model_error` proves nothing.
--
-- The rows of `1-socket Skylake` and `2-socket Haswell` are what the authors measured
-- (view extfrag_reference): the same signs and the same order are to be expected here,
-- not the same numbers; for a single node, -20 to -60 % of +1, which is
-- nofragment:mode=lowzone. Their fallbacks are MOVABLE requests, nearly all.
--
-- Tapes: several
--
-- Tier: A
--
-- Columns:
--   tape                  VARCHAR   Tape, or the machine of the reference.
--   policy                VARCHAR   Kernel and policy played, or recorded.
--   alloc_migratetype     VARCHAR   Migratetype asked for; null is all.
--   fallback_migratetype  VARCHAR   Migratetype raided; null is all.
--   fallback_order        UTINYINT  Order of the free page taken; null is all.
--   kind                  VARCHAR   claim or steal; null is both.
--   nr                    BIGINT    Fallbacks below pageblock order.
--   against               VARCHAR   What the row is compared with.
--   percent               DOUBLE    Change, in per cent.
--   model_error           BIGINT    How far the model is off here: recorded against its own replay.
--   boosts_asked          BIGINT    Boosts of a watermark that fallbacks asked for; of the model only.
--   kswapd_asked          BIGINT    Times kswapd would have been woken; of the model only.
WITH run AS (
    SELECT
        tape,
        place,
        own,
        CASE WHEN replayed THEN concat_ws(', ', model_kernel, policy) ELSE 'recorded' END AS policy,
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

-- Every kind on every tape, for none is zero and not unknown.
cell AS (
    SELECT r.tape, k.*, coalesce(f.nr, 0) AS nr
    FROM run AS r
    CROSS JOIN (SELECT DISTINCT alloc_migratetype, fallback_migratetype, fallback_order, kind FROM fallback) AS k
    LEFT JOIN fallback AS f USING (tape, alloc_migratetype, fallback_migratetype, fallback_order, kind)
),

-- One number per tape and key; a key is what is counted.
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

-- The recording against the model's account of it, if both are among the tapes.
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
),

reference AS (
    SELECT
        r.machine AS tape,
        1000000 + r.place AS place,
        r.kernel AS policy,
        {
            level: CASE WHEN r.alloc_migratetype IS NULL THEN 2 ELSE 1 END,
            alloc_migratetype: r.alloc_migratetype,
            fallback_migratetype: NULL,
            fallback_order: NULL,
            kind: NULL
        } AS key,
        r.nr,
        CASE WHEN b.kernel <> r.kernel THEN b.kernel END AS against,
        b.nr AS base,
        NULL AS model_error,
        NULL AS boosts,
        NULL AS kswapd
    FROM extfrag_reference AS r
    JOIN extfrag_reference AS b
        ON b.machine = r.machine
        AND b.kernel = '4.20-rc3'
        AND b.alloc_migratetype IS NOT DISTINCT FROM r.alloc_migratetype
)

SELECT
    tape,
    policy,
    key.alloc_migratetype AS alloc_migratetype,
    key.fallback_migratetype AS fallback_migratetype,
    key.fallback_order AS fallback_order,
    key.kind AS kind,
    nr,
    against,
    CASE WHEN against IS NOT NULL THEN round(100 * (nr - base) / nullif(base, 0), 1) END AS percent,
    model_error,
    boosts AS boosts_asked,
    kswapd AS kswapd_asked
FROM (FROM ours UNION ALL FROM reference)
ORDER BY
    key.level DESC,
    key.alloc_migratetype,
    key.fallback_migratetype,
    key.fallback_order,
    key.kind,
    place

-- Fallbacks of a recording beside those of its free run, by types, kind and order.
--
-- Counts only the fallbacks between the exact snapshots, the part of the recording that a
-- replay plays.
--
-- Parameters:
--   recorded  VARCHAR  Name of the recording.
--   model     VARCHAR  Name of its free run.
--
-- Columns:
--   alloc_migratetype     VARCHAR   Requested migratetype.
--   fallback_migratetype  VARCHAR   Migratetype of the free list that lost the page.
--   kind                  VARCHAR   whole, claim or steal: see the view extfrag.
--   alloc_order           UTINYINT  Requested order.
--   recorded              BIGINT    Fallbacks of the recording.
--   model                 BIGINT    Fallbacks of the free run.
WITH span AS (
    SELECT
        coalesce(min(ts) FILTER (snapshot = 0), 0) AS after,
        coalesce(
            CASE WHEN bool_or(snapshot = 0) THEN max(ts) FILTER (snapshot > 0) END,
            18446744073709551615
        ) AS until
    FROM snapshot
    WHERE how = 'exact'
)

SELECT
    alloc_migratetype,
    fallback_migratetype,
    kind,
    alloc_order,
    count(*) FILTER (tape = $recorded) AS recorded,
    count(*) FILTER (tape = $model) AS model
FROM extfrag
WHERE ts > (SELECT after FROM span) AND ts <= (SELECT until FROM span)
GROUP BY ALL

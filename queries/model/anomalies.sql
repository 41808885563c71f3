-- Where the tape contradicts the model, by kind. Only for replayed tapes.
--
-- A few frees of unknown pages are normal: pages allocated before the tape began,
-- in bulk, or as compaction targets announce no allocation. Read the others.
--
-- Tier: A
--
-- Columns:
--   kind    VARCHAR  What the contradiction is.
--   action  VARCHAR  What the engine did about it.
--   nr      BIGINT   How often.
SELECT
    kind,
    action,
    count(*) AS nr
FROM anomaly
GROUP BY kind, action
ORDER BY nr DESC, kind, action

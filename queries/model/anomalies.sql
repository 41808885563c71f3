-- Contradictions between the tape and the model, by kind. Only for replayed tapes.
--
-- A few frees of unknown pages are normal: pages allocated before the tape began, in bulk,
-- or as compaction targets have no allocation event. Read the other kinds first.
--
-- Tier: A
--
-- Columns:
--   kind    VARCHAR  Kind of contradiction.
--   action  VARCHAR  How the engine handled it.
--   nr      BIGINT   Number of contradictions.
SELECT
    kind,
    action,
    count(*) AS nr
FROM anomaly
GROUP BY kind, action
ORDER BY nr DESC, kind, action

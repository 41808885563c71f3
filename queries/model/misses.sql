-- Wrong predictions of the model, by decision and cause. Only for tapes of validate -o.
--
-- Each row of the table `miss` is one wrong prediction with the event that revealed it; query
-- the table with `pagetape sql`.
--
-- Tier: A
--
-- Columns:
--   decision  VARCHAR  Kind of decision.
--   cause     VARCHAR  Repair that corrected the model.
--   place     VARCHAR  Place of the recorded page in the model.
--   nr        BIGINT   Number of wrong predictions.
--   first_at  UBIGINT  Row of the first event that revealed such a miss.
SELECT
    decision,
    cause,
    place,
    count(*) AS nr,
    min("at") AS first_at
FROM miss
GROUP BY decision, cause, place
ORDER BY nr DESC, decision, cause, place

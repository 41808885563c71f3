-- What the model foresaw wrongly, by decision and cause. Only for tapes of validate -o.
--
-- One row of the table `miss` is one wrong decision, with the event that told; ask for
-- them with `pagetape sql`.
--
-- Tier: A
--
-- Columns:
--   decision  VARCHAR  What the kernel decided.
--   cause     VARCHAR  How the model was put right.
--   place     VARCHAR  Where the model held the page that was recorded.
--   nr        BIGINT   How often.
--   first_at  UBIGINT  Row of the first event that told.
SELECT
    decision,
    cause,
    place,
    count(*) AS nr,
    min("at") AS first_at
FROM miss
GROUP BY decision, cause, place
ORDER BY nr DESC, decision, cause, place

-- Lost events of tapes.
--
-- A tape with an unknown loss is left out.
--
-- Columns:
--   tape  BIGINT  Number of the tape.
--   nr    BIGINT  Lost events.
SELECT tape, lost AS nr FROM fleet_tape WHERE lost IS NOT NULL

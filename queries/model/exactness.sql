-- Share of the kernel's decisions that the model predicted. Only for tapes of validate -o.
--
-- Read `percent` first: the share of correct predictions. A decision is unknown if the tape
-- has not yet shown the state that the decision depends on, as at the start of a recording
-- without an exact snapshot. `percent` leaves unknown decisions out; `pagetape validate` prints shares
-- of all decisions.
--
-- Tier: A
--
-- Parameters:
--   interval_ms  BIGINT 0..9000000000000 = 0  Width of one row in milliseconds, 1000 or more; 0 for one row over all time.
--
-- Columns:
--   at_s      DOUBLE     Start of the interval, seconds after the first interval; null for all time.
--   node      USMALLINT  NUMA node.
--   zone      VARCHAR    Zone.
--   decision  VARCHAR    Kind of decision.
--   nr        BIGINT     Decisions recorded.
--   exact     BIGINT     Decisions predicted correctly.
--   wrong     BIGINT     Decisions predicted wrongly.
--   unknown   BIGINT     Decisions without a prediction.
--   percent   DOUBLE     Share of the predicted decisions, exact / (exact + wrong), in percent, rounded down.
SELECT
    CASE WHEN $interval_ms::BIGINT > 0
        THEN (ts - (SELECT min(ts) FROM exactness))::BIGINT // (1000000 * $interval_ms::BIGINT)
            * $interval_ms::BIGINT / 1000
    END AS at_s,
    node,
    zone,
    decision,
    sum(nr)::BIGINT AS nr,
    sum(exact)::BIGINT AS exact,
    sum(nr - exact - unknown)::BIGINT AS wrong,
    sum(unknown)::BIGINT AS unknown,
    floor(100000 * sum(exact) / nullif(sum(nr - unknown), 0)) / 1000 AS percent
FROM exactness
GROUP BY at_s, node, zone, decision
ORDER BY at_s, node, zone, decision

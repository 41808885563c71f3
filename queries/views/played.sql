-- Time span of the tape that a replay covers.
--
-- The span runs from the exact snapshot at the start to the one at the end, where they exist.
-- Without the first, it runs from the time when the events of every CPU are there: the first ones of
-- a CPU, a thousand or more, may be lost.
--
-- Columns:
--   tape   VARCHAR  Name of the tape.
--   since  UBIGINT  Trace clock of the first event in the span, ns.
--   until  UBIGINT  Trace clock of the last event in the span, ns.
SELECT
    m.tape,
    coalesce(min(s.ts) FILTER (s.snapshot = 0) + 1, min(g.since), 0)::UBIGINT AS since,
    coalesce(
        CASE WHEN bool_or(s.snapshot = 0) THEN min(s.ts) FILTER (s.snapshot > 0 AND s.snapshot = l.snapshot) END,
        18446744073709551615
    )::UBIGINT AS until
FROM machine AS m
LEFT JOIN snapshot AS s ON s.tape = m.tape AND s.how = 'exact'
LEFT JOIN (SELECT tape, max(snapshot) AS snapshot FROM snapshot GROUP BY tape) AS l ON l.tape = m.tape
LEFT JOIN (SELECT tape, max(to_ts) AS since FROM lost WHERE from_ts IS NULL AND coalesce(events, 1000) >= 1000 GROUP BY tape) AS g
    ON g.tape = m.tape
GROUP BY m.tape

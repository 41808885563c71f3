-- From when to when a replay of the tape plays it.
--
-- From the exact snapshot at the start to the exact one at the end, where there are such.
--
-- Columns:
--   tape   VARCHAR  Name of the tape.
--   since  UBIGINT  Trace clock of the first event that may be played, ns.
--   until  UBIGINT  Trace clock of the last one, ns.
SELECT
    m.tape,
    coalesce(min(s.ts) FILTER (s.snapshot = 0) + 1, 0)::UBIGINT AS since,
    coalesce(
        CASE WHEN bool_or(s.snapshot = 0) THEN min(s.ts) FILTER (s.snapshot > 0 AND s.snapshot = l.snapshot) END,
        18446744073709551615
    )::UBIGINT AS until
FROM machine AS m
LEFT JOIN snapshot AS s ON s.tape = m.tape AND s.how = 'exact'
LEFT JOIN (SELECT tape, max(snapshot) AS snapshot FROM snapshot GROUP BY tape) AS l ON l.tape = m.tape
GROUP BY m.tape

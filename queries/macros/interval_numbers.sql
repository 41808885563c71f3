-- The numbers of all intervals of a tape, from that of its first event, 0, to that of its last: reports keep the empty ones.
--
-- Arguments are start_ts and end_ts of a row of machine, and the width in milliseconds. Null without an event.
CREATE TEMP MACRO interval_numbers(start_ts, end_ts, ms) AS
range(CASE
    WHEN (end_ts - start_ts)::BIGINT // (1000000 * greatest(ms::BIGINT, 1)) < 1000000
        THEN (end_ts - start_ts)::BIGINT // (1000000 * greatest(ms::BIGINT, 1)) + 1
    WHEN start_ts IS NOT NULL
        THEN error('bad parameter: the tape has more than a million intervals of ' || ms || ' ms')
END)

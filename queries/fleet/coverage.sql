-- What an archive covers, day by day: hosts, hours, losses, tapes that cannot be read.
--
-- Read this before any other report about a fleet. A host without a tape on a day is missing from every number of that
-- day. `absent` counts hosts that have tapes on other days of the question, but none on this one. A day is the UTC day on
-- which a tape began. Replays do not count.
--
-- Tier: -
--
-- Columns:
--   date             VARCHAR  UTC day on which the tapes began, or unknown.
--   hosts            BIGINT   Machines with a tape.
--   absent           BIGINT   Machines that have tapes on other days of the question only.
--   tapes            BIGINT   Tapes.
--   without_events   BIGINT   Of these, tapes without an event: their hours count.
--   unreadable       BIGINT   Tapes that cannot be read: fleet_tape has the reason.
--   hours            DOUBLE   Hours that the tapes cover, all hosts together.
--   covered_percent  DOUBLE   Of 24 hours of each host that has a tape, in percent.
--   events           BIGINT   Events in the tapes.
--   lost             BIGINT   Lost events; null if unknown for a tape.
--   lost_unknown     BIGINT   Tapes whose loss is unknown.
--   bytes            BIGINT   Size of the tapes.
WITH recording AS (
    SELECT * FROM fleet_tape WHERE replayed IS NOT true
),

everyone AS (
    SELECT count(DISTINCT machine) AS hosts FROM recording
)

SELECT
    r.date,
    count(DISTINCT r.machine) AS hosts,
    any_value(e.hosts) - count(DISTINCT r.machine) AS absent,
    sum(r.tapes)::BIGINT AS tapes,
    coalesce(sum(r.tapes) FILTER (r.events = 0), 0)::BIGINT AS without_events,
    coalesce(sum(r.tapes) FILTER (r.problem IS NOT NULL), 0)::BIGINT AS unreadable,
    round(coalesce(sum(r.hours), 0), 3) AS hours,
    round(100 * sum(r.hours) / nullif(24 * count(DISTINCT r.machine), 0), 2) AS covered_percent,
    coalesce(sum(r.events), 0)::BIGINT AS events,
    if(count(*) FILTER (r.lost IS NULL AND r.problem IS NULL) > 0, NULL, coalesce(sum(r.lost), 0))::BIGINT AS lost,
    coalesce(sum(r.tapes) FILTER (r.lost IS NULL AND r.problem IS NULL), 0)::BIGINT AS lost_unknown,
    sum(r.bytes)::BIGINT AS bytes
FROM recording AS r, everyone AS e
GROUP BY r.date
ORDER BY r.date

-- Lost events of the recording, CPU by CPU.
--
-- Read this before any other report. A gap is a stretch of a CPU's ring that the kernel
-- overwrote before the recorder read it. Its events are missing from every number of
-- the tape. `lost` is unknown if the kernel did not count them.
--
-- Tier: A
--
-- Columns:
--   cpu             USMALLINT  CPU.
--   gaps            BIGINT     Number of gaps.
--   lost            BIGINT     Events lost in the gaps; unknown if one of the gaps is uncounted.
--   gap_ms          DOUBLE     Total duration of the gaps whose two ends are known, in ms.
--   read            BIGINT     Events read from the ring.
--   overrun         BIGINT     Events overwritten before they were read.
--   commit_overrun  BIGINT     Events lost to nested writers.
--   dropped         BIGINT     Events dropped by a full ring.
WITH gap AS (
    SELECT
        cpu,
        count(*) AS gaps,
        CASE WHEN count(*) = count(events) THEN sum(events)::BIGINT END AS lost,
        sum(to_ts - from_ts)::BIGINT / 1e6 AS gap_ms
    FROM lost
    GROUP BY cpu
),

ring_of_cpu AS (
    SELECT
        cpu,
        sum(read)::BIGINT AS read,
        sum(overrun)::BIGINT AS overrun,
        sum(commit_overrun)::BIGINT AS commit_overrun,
        sum(dropped)::BIGINT AS dropped
    FROM ring
    GROUP BY cpu
)

SELECT
    cpu,
    coalesce(gaps, 0) AS gaps,
    CASE WHEN gaps IS NULL THEN 0 ELSE lost END AS lost,
    coalesce(gap_ms, 0) AS gap_ms,
    read,
    overrun,
    commit_overrun,
    dropped
FROM gap
FULL JOIN ring_of_cpu USING (cpu)
ORDER BY cpu

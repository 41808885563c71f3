-- Lost events of the recording, CPU by CPU.
--
-- Read this before any other report. A gap is a stretch of a CPU's ring that the kernel
-- overwrote before the recorder read it. Its events are missing from every number of
-- the tape. `lost` is unknown if neither the gaps nor the counters of the ring have the
-- number.
--
-- Tier: A
--
-- Columns:
--   cpu             USMALLINT  CPU.
--   gaps            BIGINT     Number of gaps.
--   lost            BIGINT     Events lost, by the gaps or, if a gap is uncounted, by the ring.
--   gap_ms          DOUBLE     Total duration of the gaps whose two ends are known, in ms.
--   read            BIGINT     Events read from the ring, stamps among them.
--   overrun         BIGINT     Events overwritten before they were read.
--   commit_overrun  BIGINT     Events lost to nested writers.
--   dropped         BIGINT     Events dropped by a full ring.
WITH gap AS (
    SELECT
        cpu,
        count(*) AS gaps,
        coalesce(sum(events), 0)::BIGINT AS lost,
        count(*) = count(events) AS counted,
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
        sum(dropped)::BIGINT AS dropped,
        CASE
            WHEN count(*) = count(overrun + commit_overrun + dropped)
                THEN sum(overrun + commit_overrun + dropped)::BIGINT
        END AS lost
    FROM ring
    GROUP BY cpu
)

SELECT
    cpu,
    coalesce(gaps, 0) AS gaps,
    CASE
        WHEN gap.gaps IS NULL THEN 0
        WHEN gap.counted THEN gap.lost
        WHEN ring_of_cpu.lost IS NOT NULL THEN greatest(gap.lost, ring_of_cpu.lost)
    END AS lost,
    coalesce(gap_ms, 0) AS gap_ms,
    read,
    overrun,
    commit_overrun,
    dropped
FROM gap
FULL JOIN ring_of_cpu USING (cpu)
ORDER BY cpu

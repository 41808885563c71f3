-- Preferred node of the requests, and how pagetape found it.
--
-- The kernel asks the node of the CPU first. A `thisnode` request names its node, which is the
-- node of the page it got. A `landed` thread seems to be under a memory policy or a cpuset:
-- another node served more than 2 % of its requests while the CPU's node was above its high
-- watermark (`unforced`). Each request of such a thread prefers the node that served it. A
-- thread that waited for reclaim and woke up on another CPU looks the same. If the memory
-- policy of the process is known (table memory_policy, or --numa-maps), the policy decides:
-- `known`. `interrupt` requests belong to no thread; they prefer the CPU's node, as do
-- requests for DMA and DMA32 (`low_zone`).
--
-- Only for replays, which take the preferences as input, and for tapes of `pagetape validate
-- -o`. A machine with one node has no rows. Read `share` first.
--
-- Nodes: several
-- Tier: A
--
-- Columns:
--   found     VARCHAR  Source: cpu, landed, thisnode, interrupt or low_zone.
--   threads   BIGINT   Threads; only for cpu and landed.
--   requests  BIGINT   Served requests.
--   share     DOUBLE   Share of all requests, 0 to 1.
--   remote    BIGINT   Requests served by another node than the CPU's; only for cpu and landed.
--   unforced  BIGINT   Remote requests while the CPU's node had memory.
--   known     BIGINT   Threads whose memory policy is known; only for cpu and landed.
WITH thread AS (
    SELECT
        preferred AS found,
        count(*) AS threads,
        sum(requests) AS requests,
        sum(remote) AS remote,
        sum(unforced) AS unforced,
        count(*) FILTER (known) AS known
    FROM preference
    GROUP BY preferred
),

asked AS (
    SELECT gfp_flags, (flags & 14) <> 0 AS interrupt, count(*) AS requests
    FROM event
    WHERE kind = 'alloc' AND pfn IS NOT NULL AND EXISTS (FROM preference)
    GROUP BY ALL
),

other AS (
    SELECT
        CASE
            WHEN gfp_has(gfp_flags, 'THISNODE') THEN 'thisnode'
            WHEN interrupt THEN 'interrupt'
            WHEN gfp_has(gfp_flags, 'DMA') OR gfp_has(gfp_flags, 'DMA32') THEN 'low_zone'
        END AS found,
        NULL AS threads,
        sum(requests) AS requests,
        NULL AS remote,
        NULL AS unforced,
        NULL AS known
    FROM asked
    GROUP BY found
    HAVING found IS NOT NULL
)

SELECT
    *,
    round(requests / sum(requests) OVER (), 6)::DOUBLE AS share
FROM (FROM thread UNION ALL FROM other)
ORDER BY requests DESC, found

-- Which node the requests of a tape prefer, and how that was found out.
--
-- The kernel asks the node of the CPU first. Requests of `thisnode` name their node, that of
-- the page they got. A thread of `landed` seems to be under a memory policy or a cpuset: more
-- than 2 % of its requests were served by another node while the CPU's own was above its high
-- watermark (`unforced`), and each is taken to prefer the node it landed on. A thread that
-- waited for reclaim and woke up on another CPU looks the same. Where the memory policy of its
-- process was told (table memory_policy, or --numa-maps), that decides: `told`. `interrupt` requests are those
-- of no thread, and, as those for DMA and DMA32 (`low_zone`), prefer the CPU's node.
--
-- Only for replays, which are given this, and for what `pagetape validate -o` writes; none of
-- a machine of one node. Read `share` first.
--
-- Nodes: several
--
-- Tier: A
--
-- Columns:
--   found     VARCHAR  How: cpu, landed, thisnode, interrupt or low_zone.
--   threads   BIGINT   Threads; of cpu and landed only.
--   requests  BIGINT   Requests that were served.
--   share     DOUBLE   Of all requests, 0 to 1.
--   remote    BIGINT   Of cpu and landed: served by another node than the CPU's.
--   unforced  BIGINT   Of these: though the CPU's node had memory.
--   told      BIGINT   Threads whose memory policy was told; of cpu and landed only.
WITH thread AS (
    SELECT
        preferred AS found,
        count(*) AS threads,
        sum(requests) AS requests,
        sum(remote) AS remote,
        sum(unforced) AS unforced,
        count(*) FILTER (known) AS told
    FROM preference
    GROUP BY preferred
),

asked AS (
    SELECT gfp_names(gfp_flags) AS gfp, (flags & 14) <> 0 AS interrupt
    FROM event
    WHERE kind = 'alloc' AND pfn IS NOT NULL
),

other AS (
    SELECT
        CASE
            WHEN gfp LIKE '%THISNODE%' THEN 'thisnode'
            WHEN interrupt THEN 'interrupt'
            WHEN list_has_any(string_split(gfp, '|'), ['DMA', 'DMA32']) THEN 'low_zone'
        END AS found,
        NULL AS threads,
        count(*) AS requests,
        NULL AS remote,
        NULL AS unforced,
        NULL AS told
    FROM asked
    WHERE EXISTS (FROM preference)
    GROUP BY found
    HAVING found IS NOT NULL
)

SELECT
    found,
    threads::BIGINT AS threads,
    requests::BIGINT AS requests,
    round(requests / sum(requests) OVER (), 6)::DOUBLE AS share,
    remote::BIGINT AS remote,
    unforced::BIGINT AS unforced,
    told::BIGINT AS told
FROM (FROM thread UNION ALL FROM other)
ORDER BY requests DESC, found

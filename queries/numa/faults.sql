-- Huge page faults: successes, nodes of the pages, and causes of failure.
--
-- On a recording, the report finds a fault by its first try (pageblock order, __GFP_THISNODE
-- and __GFP_NORETRY; since 5.4). The same holds for a replay whose policies do not change such
-- faults. In both cases `local` counts successes of the first try, and `remote` counts successes
-- of the second try, on all nodes: its page may still be local. The cause columns are null.
-- Under thp_numa or order_walk the model counts `local` and `remote` by the page's node, and
-- the causes by the state of the fault's own node.
--
-- Under R0, the model compacts for a fault only where the recording did, so fewer faults
-- succeed than on the recording. Compare replays with each other. The difference between the
-- recording and the replay under the tape's own rules is the error.
--
-- Tapes: several
-- Replay: without thp_numa or order_walk, a request that failed on the recording gets no block here, also where the model has one: `compare` counts these as served
-- Needs: event.alloc
-- Tier: B
--
-- Columns:
--   tape             VARCHAR  The tape.
--   policy           VARCHAR  Policies of a replay.
--   faults           BIGINT   Faults that requested a huge page.
--   local            BIGINT   Faults served from their own node.
--   remote           BIGINT   Faults served on the second try, or from another node.
--   fallback         BIGINT   Faults that got single pages.
--   success          DOUBLE   Share of faults that got a huge page, 0 to 1.
--   below_watermark  BIGINT   Fallbacks because the fault's own node had too few free pages.
--   fragmented       BIGINT   Fallbacks because of fragmentation: fragmentation index above 500.
--   no_compaction    BIGINT   Fallbacks because the kernel would not compact: index 500 or below, or the request may not wait.
--   swallowed        BIGINT   Single pages of the recording that are part of huge pages in this run.
--   pieces           BIGINT   Single pages of this run that replace huge pages of the recording.
WITH try AS (
    SELECT
        e.tape,
        e.pfn IS NOT NULL AS got,
        gfp_has(e.gfp_flags, 'THISNODE') AS local
    FROM (
        SELECT tape, pfn, page_order, gfp_flags
        FROM event
        WHERE kind = 'alloc' AND migratetype = 'MOVABLE' AND page_order > 3
    ) AS e
    JOIN machine AS m ON m.tape = e.tape AND m.pageblock_order = e.page_order
    WHERE gfp_has(e.gfp_flags, 'HIGHMEM') AND gfp_has(e.gfp_flags, 'COMP') AND gfp_has(e.gfp_flags, 'NOMEMALLOC')
      AND (NOT gfp_has(e.gfp_flags, 'THISNODE') OR gfp_has(e.gfp_flags, 'NORETRY'))
),

shown AS (
    SELECT
        tape,
        count(*) FILTER (local) AS faults,
        count(*) FILTER (local AND got) AS local,
        count(*) FILTER (NOT local AND got) AS remote
    FROM try
    GROUP BY tape
),

counted AS (
    SELECT
        tape,
        sum(thp_local) AS local,
        sum(thp_remote) AS remote,
        sum(thp_below_watermark) AS below_watermark,
        sum(thp_fragmented) AS fragmented,
        sum(thp_no_compaction) AS no_compaction,
        sum(thp_swallowed) AS swallowed,
        sum(thp_pieces) AS pieces
    FROM counter
    GROUP BY tape
    HAVING sum(thp_local + thp_remote + thp_below_watermark + thp_fragmented + thp_no_compaction) > 0
),

found AS (
    SELECT
        coalesce(c.tape, s.tape) AS tape,
        coalesce(c.local + c.remote + c.below_watermark + c.fragmented + c.no_compaction, s.faults) AS faults,
        coalesce(c.local, s.local) AS local,
        coalesce(c.remote, s.remote) AS remote,
        c.below_watermark,
        c.fragmented,
        c.no_compaction,
        c.swallowed,
        c.pieces
    FROM counted AS c
    FULL JOIN shown AS s ON s.tape = c.tape
)

SELECT
    f.*,
    m.policy,
    greatest(f.faults - f.local - f.remote, 0)::BIGINT AS fallback,
    round((f.local + f.remote) / nullif(f.faults, 0), 4)::DOUBLE AS success
FROM found AS f
JOIN machine AS m USING (tape)
ORDER BY m.place

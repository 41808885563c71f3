-- Faults that asked for a huge page: how many got one, from where, and why others did not.
--
-- Of a recording, and of a replay whose policies leave such faults as they are, a fault
-- counts where its first try shows (order of a pageblock, __GFP_THISNODE and
-- __GFP_NORETRY; since 5.4), `local` by that try and `remote` by the one on all nodes,
-- which may be local after all. Under thp_numa or order_walk the model counts where the
-- page is, and what its own node lacked where it got none; else the causes are empty.
--
-- As recorded (R0) nobody compacts for a fault but the record, so that fewer succeed than
-- on the recording: compare replays with each other, and the tape's own rule with the
-- recording for the error.
--
-- Tapes: several
--
-- Nodes: several
--
-- Tier: B
--
-- Columns:
--   tape             VARCHAR  The tape.
--   policy           VARCHAR  Of a replay: its policies.
--   faults           BIGINT   Faults that asked for a huge page.
--   local            BIGINT   That got one of their own node.
--   remote           BIGINT   That got one on the second try, or of another node.
--   fallback         BIGINT   That got single pages.
--   success          DOUBLE   Share that got one, 0 to 1.
--   below_watermark  BIGINT   Of the fallbacks: the own node had too few free pages.
--   fragmented       BIGINT   It had them in pieces: fragmentation index above 500.
--   no_compaction    BIGINT   The kernel would not compact: 500 or below, or it may not wait.
--   swallowed        BIGINT   Single pages of the record that are in huge pages here.
--   pieces           BIGINT   Single pages that stand for huge pages of the record.
WITH try AS (
    SELECT
        e.tape,
        e.pfn IS NOT NULL AS got,
        e.gfp LIKE '%THISNODE%' AS local
    FROM (
        SELECT tape, pfn, page_order, gfp_names(gfp_flags) AS gfp
        FROM event
        WHERE kind = 'alloc' AND migratetype = 'MOVABLE' AND page_order > 3
    ) AS e
    JOIN machine AS m ON m.tape = e.tape AND m.pageblock_order = e.page_order
    WHERE e.gfp LIKE '%HIGHMEM%' AND e.gfp LIKE '%COMP%' AND e.gfp LIKE '%NOMEMALLOC%'
      AND (e.gfp NOT LIKE '%THISNODE%' OR e.gfp LIKE '%NORETRY%')
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
    f.tape,
    m.policy,
    f.faults::BIGINT AS faults,
    f.local::BIGINT AS local,
    f.remote::BIGINT AS remote,
    greatest(f.faults - f.local - f.remote, 0)::BIGINT AS fallback,
    round((f.local + f.remote) / nullif(f.faults, 0), 4)::DOUBLE AS success,
    f.below_watermark::BIGINT AS below_watermark,
    f.fragmented::BIGINT AS fragmented,
    f.no_compaction::BIGINT AS no_compaction,
    f.swallowed::BIGINT AS swallowed,
    f.pieces::BIGINT AS pieces
FROM found AS f
JOIN machine AS m USING (tape)
ORDER BY m.place

-- Fallbacks by pair of migratetypes: claimed and polluted, tape by tape.
--
-- These are the tables of the changelogs of vm.defrag_mode (commits e3aa7df331bc and
-- c2f6ea38fc1b). The changelogs say `claim`, `steal` and `pollute` for the columns `claim_whole`,
-- `claim_part` and `pollute`. Read `pollute` first: two migratetypes then share a pageblock. The
-- view `extfrag` has the same three kinds under the names whole, claim and steal.
--
-- The first tape is the base. `unit` is what one pollute event stands for: kernels up to 6.8 emit
-- one for each free block taken, later ones one for each page. `pollute_ratio` compares events: it is empty
-- if the units differ or are unknown. Pages and pageblocks are comparable between all kernels. For a
-- recording and its replay the report counts the same span; compare tapes of equal `seconds`.
--
-- Tapes: several
-- Needs: event.alloc_extfrag
-- Tier: A
--
-- Columns:
--   tape                  VARCHAR  The tape.
--   alloc_migratetype     VARCHAR  Requested migratetype.
--   fallback_migratetype  VARCHAR  Migratetype of the free list that lost the page.
--   claim_whole           BIGINT   Fallbacks of whole free pageblocks, which changed migratetype: nothing mixes.
--   claim_part            BIGINT   Fallbacks that changed the migratetype of a partly used pageblock.
--   pollute               BIGINT   Fallbacks that left the migratetype of the pageblock unchanged.
--   polluted_pages        BIGINT   Free pages that the pollute events gave to the requested migratetype.
--   polluted_blocks       BIGINT   Pageblocks with a pollute event of the pair.
--   pollute_ratio         DOUBLE   pollute, relative to the first tape = 100; null with other units.
--   blocks_ratio          DOUBLE   polluted_blocks, relative to the first tape = 100.
--   unit                  VARCHAR  What one pollute event stands for: block, page, or null if unknown.
--   seconds               DOUBLE   Length of the span that the report counts.
WITH counted AS (
    SELECT
        f.tape,
        f.alloc_migratetype,
        f.fallback_migratetype,
        count(*) FILTER (f.kind = 'whole') AS claim_whole,
        count(*) FILTER (f.kind = 'claim') AS claim_part,
        count(*) FILTER (f.kind = 'steal') AS pollute,
        sum(1::BIGINT << least(if(m.fallback_unit = 'block', f.fallback_order, f.alloc_order)::INTEGER, 20))
            FILTER (f.kind = 'steal') AS polluted_pages,
        count(DISTINCT f.pfn >> m.pageblock_order) FILTER (f.kind = 'steal') AS polluted_blocks
    FROM extfrag AS f
    JOIN machine AS m USING (tape)
    JOIN played AS p ON p.tape = f.tape AND f.ts BETWEEN p.since AND p.until
    GROUP BY f.tape, f.alloc_migratetype, f.fallback_migratetype
),

pair AS (
    SELECT DISTINCT alloc_migratetype, fallback_migratetype FROM counted
),

filled AS (
    SELECT
        m.place,
        m.tape,
        m.fallback_unit,
        p.alloc_migratetype,
        p.fallback_migratetype,
        coalesce(c.claim_whole, 0) AS claim_whole,
        coalesce(c.claim_part, 0) AS claim_part,
        coalesce(c.pollute, 0) AS pollute,
        coalesce(c.polluted_pages, 0)::BIGINT AS polluted_pages,
        coalesce(c.polluted_blocks, 0) AS polluted_blocks
    FROM machine AS m
    CROSS JOIN pair AS p
    LEFT JOIN counted AS c USING (tape, alloc_migratetype, fallback_migratetype)
)

SELECT
    f.*,
    round(
        CASE
            WHEN f.fallback_unit = first(f.fallback_unit) OVER base
                THEN 100 * f.pollute / nullif(first(f.pollute) OVER base, 0)
        END,
        1
    ) AS pollute_ratio,
    round(100 * f.polluted_blocks / nullif(first(f.polluted_blocks) OVER base, 0), 1) AS blocks_ratio,
    f.fallback_unit AS unit,
    round(
        CASE WHEN m.start_ts IS NOT NULL THEN least(p.until, m.end_ts)::DOUBLE - greatest(p.since, m.start_ts)::DOUBLE END / 1e9,
        3
    ) AS seconds
FROM filled AS f
JOIN machine AS m USING (tape)
JOIN played AS p USING (tape)
WINDOW base AS (PARTITION BY f.alloc_migratetype, f.fallback_migratetype ORDER BY f.place)
ORDER BY f.alloc_migratetype, f.fallback_migratetype, f.place

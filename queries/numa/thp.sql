-- Distance and size of the pages of processes, and their access cost.
--
-- A page counts from its allocation to its free; a split huge page counts to its first
-- free. `distance` is the class of distance between the page's node and the node of the CPU
-- that allocated it; 0 is the same node. Only MOVABLE pages count, single or of pageblock
-- order. Read `relative_cost` first: 1 is a run whose pages are all huge and local. It weights
-- access costs by the number of pages and their lifetime. No tape records accesses, so the
-- report assumes that the accesses are uniform over all pages and their lifetimes.
--
-- `--cost` selects the costs measured on an EPYC (naples), or in a guest on a Threadripper 1950X
-- with huge pages in both (guest, not measured beyond class 1). It also takes six percentages, for huge and
-- single pages of classes 0, 1 and 2, as in `--cost 0,43,45,106,131,224`; `pagetape load seek` measures
-- those of this machine. An unknown percentage is `-`, as in `--cost 0,36,-,-,-,-`. Farther nodes
-- cost as much as class 2. Relative costs leave out rows without a cost.
--
-- Nodes are those of the recording: fake_numa does not split them here. `assumed` means
-- that the tape has no distances; the report then uses 10 and 20.
--
-- Tapes: several
-- Nodes: several
-- Events: whole
-- Tier: B
--
-- Parameters:
--   cost  VARCHAR = naples  naples, guest, or six percentages.
--
-- Columns:
--   tape           VARCHAR  The tape.
--   policy         VARCHAR  Policies of a replay.
--   distance       INTEGER  Class of distance, 0 to 2.
--   size           VARCHAR  huge or single.
--   pages          BIGINT   Pages allocated, of the base size.
--   page_s         DOUBLE   Total lifetime of these pages, in page seconds.
--   share          DOUBLE   Share of all page seconds of the tape, 0 to 1.
--   cost_percent   DOUBLE   Extra cost of an access relative to a local huge page.
--   relative_cost  DOUBLE   Relative cost of the whole tape.
--   remote_huge    DOUBLE   Share of the tape's huge page seconds that are not local, 0 to 1.
--   assumed        BOOLEAN  The distances are assumed.
WITH chosen AS (
    SELECT
        CASE $cost
            WHEN 'naples' THEN '0,43,45,106,131,224'
            WHEN 'guest' THEN '0,101,58,222,,'
            ELSE coalesce(
                nullif(regexp_extract($cost, '^((\d+(\.\d+)?|-),){5}(\d+(\.\d+)?|-)$'), ''),
                error('bad parameter: cost ''' || $cost || ''' is not naples, guest or six percentages, as 0,43,45,106,131,224')
            )
        END AS costs
),

price AS (
    SELECT
        i // 2 AS distance,
        CASE i % 2 WHEN 0 THEN 'huge' ELSE 'single' END AS size,
        try_cast(string_split(costs, ',')[i + 1] AS DOUBLE) AS percent
    FROM chosen, range(6) AS r(i)
),

class AS (
    SELECT
        tape,
        cpu,
        to_node,
        assumed,
        least(dense_rank() OVER (PARTITION BY tape, cpu ORDER BY distance) - 1, 2)::INTEGER AS distance
    FROM node_distance
),

used AS (
    SELECT
        h.tape,
        h.cpu,
        z.node,
        CASE h.page_order WHEN 0 THEN 'single' ELSE 'huge' END AS size,
        sum(1::BIGINT << h.page_order::INTEGER) AS pages,
        sum((coalesce(h.until_ts, m.end_ts) - h.ts)::DOUBLE * (1::BIGINT << h.page_order::INTEGER)) / 1e9 AS page_s
    FROM movable_page_use AS h
    JOIN machine AS m USING (tape)
    JOIN zone AS z
        ON z.tape = h.tape
        AND z.snapshot = 0
        AND h.pfn BETWEEN z.start_pfn AND z.start_pfn + z.spanned - 1
    GROUP BY ALL
),

placed AS (
    SELECT
        u.tape,
        c.distance,
        u.size,
        sum(u.pages) AS pages,
        sum(u.page_s) AS page_s,
        bool_or(c.assumed) AS assumed
    FROM used AS u
    JOIN class AS c ON c.tape = u.tape AND c.cpu = u.cpu AND c.to_node = u.node
    GROUP BY ALL
)

SELECT
    p.* REPLACE (round(p.page_s, 3) AS page_s),
    m.policy,
    round(p.page_s / nullif(sum(p.page_s) OVER t, 0), 6) AS share,
    c.percent AS cost_percent,
    round(
        sum(p.page_s * (1 + c.percent / 100)) OVER t
        / nullif(sum(p.page_s) FILTER (c.percent IS NOT NULL) OVER t, 0),
        4
    ) AS relative_cost,
    round(
        coalesce(sum(p.page_s) FILTER (p.size = 'huge' AND p.distance > 0) OVER t, 0)
        / nullif(sum(p.page_s) FILTER (p.size = 'huge') OVER t, 0),
        6
    ) AS remote_huge
FROM placed AS p
JOIN machine AS m USING (tape)
JOIN price AS c USING (distance, size)
WINDOW t AS (PARTITION BY p.tape)
ORDER BY m.place, p.distance, p.size

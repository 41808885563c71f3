-- All metrics that `pagetape compare` compares.
--
-- Compare tapes of one machine. A recorded tape lacks the metrics that only the model has;
-- `pagetape compare` gets those of its pageblocks, and of how the zones
-- stood at its requests, from the model that follows the record.
--
-- A refill run is a run of alloc_zone_locked events of one CPU with no allocation
-- of that CPU between them: a refill of its lists, or a page that bypasses them. Runs that begin
-- with an order that no list has do not count: since 5.14 orders 4 and more, except that of a
-- pageblock; before, all but order 0. A drain run is a run of pcpu_drain events with no free
-- between them. The report derives both from events, so they mean the same on every tape.
--
-- The requests of the recorder's own threads do not count in allocs, frees, pages and runs: the
-- recorder writes each event, so they depend on what it records. Fallbacks and the state at the end
-- have them. Tapes that do not name their recorder count them.
--
-- A replay from an exact snapshot covers the time from that snapshot to the exact one at
-- the end. For the recording, the report counts the same span.
--
-- Wakes and passes of kswapd, direct reclaims and runs of kcompactd are counted on recordings with
-- such events, and on replays with feedback (R1, R2). A wake is the first call of a kswapd since its
-- last pass or sleep: later calls find it awake.
--
-- A fragmentation index has no value in a zone where a request of the order would succeed: the
-- kernel's -1000 is no number. Null there means just that.
--
-- Success of huge pages is the share of the requests for a huge page that got one, by order: those
-- of page faults, shared memory and khugepaged, which have the flags of GFP_TRANSHUGE_LIGHT. A fault
-- that asks on its own node, then on all nodes, is one request; one that asks for several orders is
-- one of each. The model counts the requests that it has a block for (table huge_request).
--
-- Events: whole
-- Tier: B
--
-- Columns:
--   metric  VARCHAR  Name of the metric.
--   unit    VARCHAR  events, pages, blocks, or 1/1000 of an index.
--   tier    VARCHAR  Tier of the number if it is a prediction.
--   value   BIGINT   Value of the metric, at least 0; null for an index: a request would succeed.
--   most    BIGINT   Largest value that the metric can have on this machine; null: no limit.
WITH span AS MATERIALIZED (
    -- Once: each use of a view is planned and read anew.
    SELECT since, until FROM played
),

counted AS MATERIALIZED (
    SELECT
        kind,
        page_order,
        migratetype,
        gfp_flags,
        fallback_order,
        fallback_migratetype,
        change_ownership,
        recorder,
        sum(events)::BIGINT AS events,
        sum(without_page)::BIGINT AS without_page,
        sum(runs)::BIGINT AS runs
    FROM event_group
    WHERE played
    GROUP BY ALL
),

page_event AS MATERIALIZED (
    SELECT kind, events AS nr, without_page AS no_page, events << page_order::INTEGER AS pages
    FROM counted
    WHERE NOT recorder
    UNION ALL
    SELECT kind, events, without_page, events << page_order::INTEGER
    FROM event_count
    WHERE recorder IS NOT TRUE
),

begun AS (
    SELECT page_order, kind = 'pcpu_drain' AS back, runs AS nr
    FROM counted
    WHERE runs > 0
    UNION ALL
    SELECT page_order, kind = 'pcpu_drain', runs
    FROM event_count
    WHERE runs IS NOT NULL AND recorder IS NOT TRUE
),

run AS MATERIALIZED (
    SELECT back, sum(nr)::BIGINT AS nr
    FROM begun
    JOIN machine AS m ON has_lists(page_order, m.pageblock_order, m.pcp_lists)
    GROUP BY back
),

fallback AS MATERIALIZED (
    SELECT
        c.migratetype AS wanted,
        c.fallback_migratetype AS raided,
        c.page_order AS alloc_order,
        fallback_kind(c.fallback_order, c.change_ownership, m.pageblock_order) AS kind,
        c.fallback_order < m.pageblock_order AS below_pageblock,
        c.events AS nr
    FROM counted AS c
    CROSS JOIN machine AS m
    WHERE c.kind = 'alloc_extfrag'
),

last_area AS MATERIALIZED (
    SELECT node, zone, page_order, sum(nr_free)::BIGINT AS nr_free
    FROM free_area
    WHERE snapshot = (SELECT max(snapshot) FROM free_area) AND snapshot > 0
    GROUP BY node, zone, page_order
),

-- The kernel's own indices of the zones at the end.
zone_index AS MATERIALIZED (
    SELECT i.node, i.zone, i.page_order, i.unusable_free, i.fragmentation_index
    FROM frag_index AS i
    JOIN machine AS m USING (tape)
    WHERE i.snapshot = (SELECT max(snapshot) FROM free_area)
      AND i.snapshot > 0
      AND i.free_pages > 0
      AND i.page_order IN (3, m.pageblock_order)
),

last_count AS (
    SELECT migratetype, sum(nr_blocks)::BIGINT AS nr_blocks
    FROM block_count
    WHERE snapshot = (SELECT max(snapshot) FROM block_count) AND snapshot > 0
    GROUP BY migratetype
),

pair AS (
    SELECT wanted, raided
    FROM (VALUES ('UNMOVABLE'), ('MOVABLE'), ('RECLAIMABLE')) AS w (wanted),
        (VALUES ('UNMOVABLE'), ('MOVABLE'), ('RECLAIMABLE')) AS r (raided)
    WHERE wanted <> raided
),

order_of_machine AS (
    SELECT unnest(range(coalesce(nr_orders, 11)))::INTEGER AS page_order FROM machine
),

-- Free pages at each snapshot and each sample of /proc; of a replay, at its start and the end of each interval.
free_at AS (
    SELECT f.ts, sum(f.nr_free << f.page_order::INTEGER) AS pages
    FROM free_count AS f
    WHERE f.began IS NOT NULL OR f."at" IS NULL
    GROUP BY f.ts
    UNION ALL
    SELECT ts, sum(nr_free << page_order::INTEGER)
    FROM free_area
    WHERE (SELECT NOT replayed FROM machine)
    GROUP BY ts
),

-- Free pages change evenly between two neighbours: the points do not fall at the same times on two tapes. A replay's
-- points lie in the span, those of a recording beyond it too.
free_until AS (
    SELECT
        f.ts::DOUBLE AS ts,
        f.pages,
        lead(f.ts) OVER w::DOUBLE AS next_ts,
        lead(f.pages) OVER w AS next_pages,
        greatest(s.since, min(f.ts) OVER ())::DOUBLE AS since,
        least(s.until, max(f.ts) OVER ())::DOUBLE AS until
    FROM free_at AS f
    CROSS JOIN span AS s
    WINDOW w AS (ORDER BY f.ts)
),

-- In the first half of the span, a run under other rules leaves the state of its recording.
free_in_half AS (
    SELECT
        pages + (next_pages - pages) * ((from_ts + to_ts) / 2 - ts) / (next_ts - ts) AS pages,
        to_ts - from_ts AS ns
    FROM (
        SELECT *, greatest(ts, (since + until) / 2) AS from_ts, least(next_ts, until) AS to_ts
        FROM free_until
        WHERE next_ts > ts
    )
    WHERE to_ts > from_ts
),

-- The size of the machine at the end, which bounds what lies in it.
size AS (
    SELECT nullif(sum(managed), 0)::BIGINT AS pages
    FROM zone
    WHERE snapshot = (SELECT max(snapshot) FROM zone)
),

measured AS (
    SELECT 10 AS place, 'allocs' AS metric, 'events' AS unit, 'A' AS tier, coalesce(sum(nr - no_page), 0) AS value,
        NULL::BIGINT AS most
    FROM page_event WHERE kind = 'alloc'
    UNION ALL
    SELECT 11, 'frees', 'events', 'A', coalesce(sum(nr), 0), NULL
    FROM page_event WHERE kind = 'free'
    UNION ALL
    SELECT 20, 'fallbacks', 'events', 'A', coalesce(sum(nr), 0), NULL
    FROM fallback
    UNION ALL
    SELECT 21, 'fallbacks below pageblock order', 'events', 'A', coalesce(sum(nr) FILTER (below_pageblock), 0), NULL
    FROM fallback
    UNION ALL
    SELECT 22, 'fallbacks ' || k.kind, 'events', 'A', coalesce(sum(f.nr), 0), NULL
    FROM (VALUES ('claim'), ('steal'), ('whole')) AS k (kind)
    LEFT JOIN fallback AS f USING (kind)
    GROUP BY k.kind
    UNION ALL
    SELECT 23, 'mixing ' || p.wanted || ' from ' || p.raided, 'events', 'A',
        coalesce(sum(f.nr) FILTER (f.below_pageblock), 0), NULL
    FROM pair AS p
    LEFT JOIN fallback AS f USING (wanted, raided)
    GROUP BY p.wanted, p.raided
    UNION ALL
    SELECT 24, 'fallbacks for order ' || o.page_order, 'events', 'A', coalesce(sum(f.nr), 0), NULL
    FROM order_of_machine AS o
    LEFT JOIN fallback AS f ON f.alloc_order = o.page_order
    GROUP BY o.page_order
    UNION ALL
    SELECT 30, 'pages taken under the zone lock', 'pages', 'A', coalesce(sum(pages), 0), NULL
    FROM page_event WHERE kind = 'alloc_zone_locked'
    UNION ALL
    SELECT 31, 'pages drained to the zone', 'pages', 'A', coalesce(sum(pages), 0), NULL
    FROM page_event WHERE kind = 'pcpu_drain'
    UNION ALL
    SELECT 32, 'refill runs', 'events', 'A', coalesce(sum(nr), 0), NULL
    FROM run WHERE NOT back
    UNION ALL
    SELECT 33, 'drain runs', 'events', 'A', coalesce(sum(nr), 0), NULL
    FROM run WHERE back
    UNION ALL
    SELECT 39, 'free pages on average in the second half', 'pages', 'A', sum(pages * ns) / sum(ns), (SELECT pages FROM size)
    FROM free_in_half HAVING count(*) > 0
    UNION ALL
    SELECT 40, 'free pages at the end', 'pages', 'A', sum(nr_free << page_order::INTEGER),
        (SELECT pages FROM size)
    FROM last_area HAVING count(*) > 0
    UNION ALL
    SELECT 41, 'free blocks of order ' || page_order || ' at the end', 'blocks', 'A', sum(nr_free),
        (SELECT pages FROM size) >> page_order::INTEGER
    FROM last_area GROUP BY page_order
    UNION ALL
    SELECT 42, 'free pageblocks at the end', 'blocks', 'A', sum(a.nr_free << (a.page_order - m.pageblock_order)::INTEGER),
        (SELECT pages FROM size) >> any_value(m.pageblock_order)
    FROM last_area AS a
    JOIN machine AS m ON a.page_order >= m.pageblock_order
    HAVING count(*) > 0
    UNION ALL
    SELECT 50, 'unusable free space of order ' || page_order || ' at the end, node ' || node || ' ' || zone, '1/1000',
        'A', unusable_free, 1000
    FROM zone_index
    UNION ALL
    SELECT 51, 'fragmentation index of order ' || page_order || ' at the end, node ' || node || ' ' || zone, '1/1000',
        'A', CASE WHEN fragmentation_index >= 0 THEN fragmentation_index END, 1000
    FROM zone_index
    UNION ALL
    SELECT 60, 'pageblocks ' || migratetype || ' at the end', 'blocks', 'A', nr_blocks, sum(nr_blocks) OVER ()
    FROM last_count
),

-- A replay without feedback makes no such rows; an import with these events has at least ticks.
feedback AS (
    SELECT unnest([
        {place: 64, metric: 'kswapd wakeups', unit: 'events', tier: 'B',
            value: count(*) FILTER (kind = 'wakeup_kswapd' AND kind_before IS DISTINCT FROM kind)},
        {place: 65, metric: 'kswapd passes', unit: 'events', tier: 'B', value: count(*) FILTER (kind = 'kswapd_wake')},
        {place: 66, metric: 'kswapd sleeps', unit: 'events', tier: 'B', value: count(*) FILTER (kind = 'kswapd_sleep')},
        {place: 67, metric: 'direct reclaims', unit: 'events', tier: 'B',
            value: count(*) FILTER (kind = 'direct_reclaim_begin')},
        {place: 68, metric: 'kcompactd calls', unit: 'events', tier: 'B',
            value: count(*) FILTER (kind = 'wakeup_kcompactd')},
        {place: 69, metric: 'kcompactd runs', unit: 'events', tier: 'B',
            value: count(*) FILTER (kind = 'kcompactd_wake')}
    ], recursive := true)
    FROM (
        SELECT ts, kind::VARCHAR AS kind, NULL AS kind_before
        FROM reclaim
        WHERE kind = 'direct_reclaim_begin'
        UNION ALL
        SELECT ts, kind::VARCHAR, lag(kind::VARCHAR) OVER (PARTITION BY node ORDER BY ts, "at")
        FROM reclaim
        WHERE kind IN ('wakeup_kswapd', 'kswapd_wake', 'kswapd_sleep')
        UNION ALL
        SELECT ts, kind::VARCHAR, NULL
        FROM compaction
        -- Order -1: a task wrote to vm.compaction_proactiveness; no allocation called kcompactd.
        WHERE kind = 'kcompactd_wake' OR (kind = 'wakeup_kcompactd' AND page_order IS DISTINCT FROM -1)
    )
    WHERE ts >= (SELECT since FROM span) AND ts <= (SELECT until FROM span)
    HAVING (SELECT coalesce(m.reclaim <> 'R0', list_contains(m.recorded, 'vmscan:mm_vmscan_kswapd_wake'), EXISTS (SELECT 1 FROM reclaim)) FROM machine AS m)
),

modelled AS (
    SELECT unnest([
        {place: 70, metric: 'PCP refills', unit: 'events', tier: 'A', value: sum(refills)},
        {place: 71, metric: 'PCP refill pages', unit: 'pages', tier: 'A', value: sum(refill_pages)},
        {place: 72, metric: 'PCP drains', unit: 'events', tier: 'A', value: sum(drains)},
        {place: 73, metric: 'PCP drain pages', unit: 'pages', tier: 'A', value: sum(drain_pages)},
        {place: 74, metric: 'zone lock holds', unit: 'events', tier: 'A', value: sum(lock_holds)},
        {place: 75, metric: 'zonelist scan restarts', unit: 'events', tier: 'A', value: sum(nofragment_retries)},
        {place: 78, metric: 'boosts asked for', unit: 'events', tier: 'A', value: sum(boost_asks)},
        {place: 79, metric: 'slow-path wake calls', unit: 'events', tier: 'B', value: sum(slowpath_wake_calls)},
        {place: 82, metric: 'allocs not served', unit: 'events', tier: 'B', value: sum(failed)}
    ], recursive := true)
    FROM counter
    HAVING count(*) > 0
),

-- How the zones stood at the requests: of a replay, or of a recording as validate follows it.
stood AS (
    SELECT unnest([
        {place: 76, metric: 'allocs from a lower zone', unit: 'events', tier: 'A', value: sum(lower_zone)},
        {place: 77, metric: 'allocs from another node', unit: 'events', tier: 'A', value: sum(remote_node)},
        {place: 80, metric: 'allocs below low everywhere', unit: 'events', tier: 'B', value: sum(below_low)},
        {place: 81, metric: 'allocs below min everywhere', unit: 'events', tier: 'B', value: sum(below_min)}
    ], recursive := true)
    FROM (
        SELECT lower_zone, remote_node, below_low, below_min FROM counter
        UNION ALL
        SELECT lower_zone, remote_node, below_low, below_min FROM recorded_use
    )
    HAVING count(*) > 0
),

asked AS (
    SELECT
        page_order,
        sum(CASE
            WHEN gfp_has(gfp_flags, 'THISNODE') AND gfp_has(gfp_flags, 'NORETRY') AND gfp_has(gfp_flags, 'DIRECT_RECLAIM')
            THEN events - without_page
            ELSE events
        END)::BIGINT AS asked,
        sum(events - without_page)::BIGINT AS got
    FROM counted
    WHERE kind = 'alloc'
      AND page_order > 0
      AND migratetype = 'MOVABLE'
      AND NOT (SELECT replayed FROM machine)
      AND gfp_has(gfp_flags, 'HIGHMEM') AND gfp_has(gfp_flags, 'COMP') AND gfp_has(gfp_flags, 'NOMEMALLOC')
    GROUP BY page_order
    UNION ALL
    SELECT page_order, asked, got FROM huge_request
),

-- The lower bound; for huge pages the upper bound.
mixed AS (
    SELECT unnest([
        {place: 90, metric: 'mixed pageblocks at the end', unit: 'blocks', tier: 'A', value: sum(mixed_low), most: sum(blocks)},
        {place: 91, metric: 'polluted MOVABLE pageblocks at the end', unit: 'blocks', tier: 'A', value: sum(polluted_low), most: sum(blocks)},
        {place: 92, metric: 'foreign pages at the end', unit: 'pages', tier: 'A', value: sum(foreign_low), most: sum(blocks) << (SELECT pageblock_order FROM machine)},
        {place: 93, metric: 'huge pages after a perfect compaction at the end', unit: 'blocks', tier: 'A', value: sum(thp_high), most: sum(blocks)}
    ], recursive := true)
    FROM block_mix
    WHERE ts = (SELECT max(ts) FROM block_mix)
    HAVING count(*) > 0
)

-- Every number of a run with feedback is tier B.
SELECT metric, unit, greatest(tier, (SELECT m.tier FROM machine AS m)) AS tier, value::BIGINT AS value, most::BIGINT AS most
FROM (
    SELECT place, metric, unit, tier, value, most FROM measured
    UNION ALL
    SELECT place, metric, unit, tier, value, NULL FROM feedback
    UNION ALL
    SELECT place, metric, unit, tier, value, NULL FROM modelled
    UNION ALL
    SELECT place, metric, unit, tier, value, NULL FROM stood
    UNION ALL
    SELECT place, metric, unit, tier, value, most FROM mixed
    UNION ALL
    SELECT 94, 'success of huge pages of order ' || page_order || ', of 1,000 requests', '1/1000', 'A',
        1000 * got // asked, 1000
    FROM asked
) AS every
-- A recording has no count of events that its recorder did not ask for, and of no event its state only.
WHERE (SELECT m.recorded IS NULL FROM machine AS m)
   OR metric LIKE '%at the end%'
   OR (SELECT list_contains(m.recorded, CASE
        WHEN every.place < 20 THEN 'kmem:mm_page_alloc'
        WHEN every.place < 30 THEN 'kmem:mm_page_alloc_extfrag'
        WHEN every.place IN (31, 33) THEN 'kmem:mm_page_pcpu_drain'
        WHEN every.place < 39 THEN 'kmem:mm_page_alloc_zone_locked'
        ELSE m.recorded[1]
    END) FROM machine AS m)
ORDER BY place, length(metric), metric

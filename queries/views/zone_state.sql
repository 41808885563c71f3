-- Free memory, watermarks and reserves of each zone, at every recorded moment: the argument of usable_pages and shortage.
--
-- Sources: the snapshots (zone, free_area, block_count), and the moments between them (free_count, with the boost and the
-- reserve of the last sample; without samples whose files share one stamp). Between snapshots the watermarks and lowmem_reserve are those of the first one. Counts of CMA and
-- HIGHATOMIC pages come from /proc/zoneinfo, otherwise from the lists by migratetype; a zone that has no such pageblock has none.
-- All others are null: unknown.
--
-- Rows: few
--
-- Columns:
--   tape                 VARCHAR    Name of the tape.
--   snapshot             USMALLINT  Number of the snapshot; null between snapshots.
--   ts                   UBIGINT    Trace clock, ns; 0 if the snapshot's time is unknown.
--   node                 USMALLINT  NUMA node.
--   zone                 VARCHAR    Zone.
--   place                INTEGER    Place of the zone in the enum of zones: 0 is DMA.
--   has_highmem          BOOLEAN    The machine has a zone HIGHMEM.
--   managed              BIGINT     Pages that the allocator manages.
--   free                 BIGINT     Free pages.
--   wmark_min            BIGINT     Min watermark without the boost, in pages.
--   wmark_low            BIGINT     Low watermark, in pages.
--   wmark_high           BIGINT     High watermark, in pages.
--   boost                BIGINT     Boost of the watermarks, in pages; null if unknown.
--   lowmem_reserve       BIGINT[]   Pages withheld from requests whose highest zone is the 1st, 2nd ...
--   reserved_highatomic  BIGINT     Pages in HIGHATOMIC pageblocks; null if unknown.
--   free_highatomic      BIGINT     Free pages among them; null if unknown.
--   free_cma             BIGINT     Free CMA pages; null if unknown.
--   any_blocks           BIGINT[]   Free pages in blocks of at least order 0, 1 ..., of every migratetype; null if unknown.
--   common_blocks        BIGINT[]   The same of UNMOVABLE, MOVABLE, RECLAIMABLE and RESERVE; null if the types are unknown.
--   cma_blocks           BIGINT[]   The same of CMA.
--   highatomic_blocks    BIGINT[]   The same of HIGHATOMIC.
WITH list AS (
    -- Orders that no row names have no free block.
    SELECT
        * EXCLUDE (rows, most),
        list_transform(range(most + 1), lambda o: list_sum(list_transform(rows, lambda r: if(r.page_order >= o, r.pages, 0))))::BIGINT[] AS any_blocks,
        list_transform(range(most + 1), lambda o: list_sum(list_transform(rows, lambda r: if(r.page_order >= o AND r.migratetype IN ('UNMOVABLE', 'MOVABLE', 'RECLAIMABLE', 'RESERVE'), r.pages, 0))))::BIGINT[] AS common_blocks,
        list_transform(range(most + 1), lambda o: list_sum(list_transform(rows, lambda r: if(r.page_order >= o AND r.migratetype = 'CMA', r.pages, 0))))::BIGINT[] AS cma_blocks,
        list_transform(range(most + 1), lambda o: list_sum(list_transform(rows, lambda r: if(r.page_order >= o AND r.migratetype = 'HIGHATOMIC', r.pages, 0))))::BIGINT[] AS highatomic_blocks
    FROM (
        SELECT
            tape,
            snapshot,
            node,
            zone::VARCHAR AS zone,
            max(page_order) AS most,
            bool_and(migratetype IS NOT NULL) AS types,
            bool_or(capped AND migratetype IN ('CMA', 'HIGHATOMIC')) AS cut,
            list({'page_order': page_order, 'migratetype': migratetype::VARCHAR, 'pages': (nr_free << page_order::INTEGER)::BIGINT}) AS rows
        FROM free_area
        WHERE page_order < 20  -- no kernel has larger blocks
        GROUP BY tape, snapshot, node, zone
    )
),

block AS (
    SELECT
        b.tape,
        b.snapshot,
        b.node,
        b.zone::VARCHAR AS zone,
        coalesce(sum(b.nr_blocks) FILTER (b.migratetype = 'CMA'), 0)::BIGINT AS cma,
        coalesce(sum(b.nr_blocks) FILTER (b.migratetype = 'HIGHATOMIC'), 0)::BIGINT << any_value(m.pageblock_order) AS highatomic_pages
    FROM block_count AS b
    JOIN machine AS m USING (tape)
    GROUP BY b.tape, b.snapshot, b.node, b.zone
),

-- A replay may have split a zone in parts.
snapped AS (
    SELECT
        tape,
        snapshot,
        any_value(ts) AS ts,
        node,
        zone::VARCHAR AS zone,
        sum(managed)::BIGINT AS managed,
        sum(free)::BIGINT AS free,
        sum(wmark_min)::BIGINT AS wmark_min,
        sum(wmark_low)::BIGINT AS wmark_low,
        sum(wmark_high)::BIGINT AS wmark_high,
        sum(boost)::BIGINT AS boost,
        [
            sum(lowmem_reserve_dma)::BIGINT,
            sum(lowmem_reserve_dma32)::BIGINT,
            sum(lowmem_reserve_normal)::BIGINT,
            sum(lowmem_reserve_highmem)::BIGINT,
            sum(lowmem_reserve_movable)::BIGINT,
            sum(lowmem_reserve_device)::BIGINT
        ] AS lowmem_reserve,
        sum(nr_reserved_highatomic)::BIGINT AS reserved_highatomic,
        sum(nr_free_highatomic)::BIGINT AS free_highatomic,
        sum(nr_free_cma)::BIGINT AS free_cma
    FROM zone
    GROUP BY tape, snapshot, node, zone
),

known AS MATERIALIZED (
    SELECT
        z.* EXCLUDE (reserved_highatomic, free_highatomic, free_cma),
        coalesce(z.reserved_highatomic, b.highatomic_pages) AS reserved_highatomic,
        coalesce(
            z.free_highatomic,
            if(l.types AND NOT l.cut, l.highatomic_blocks[1], NULL),
            if(coalesce(z.reserved_highatomic, b.highatomic_pages) = 0, 0, NULL)
        ) AS free_highatomic,
        coalesce(z.free_cma, if(l.types AND NOT l.cut, l.cma_blocks[1], NULL), if(b.cma = 0, 0, NULL)) AS free_cma,
        -- A zone without a CMA pageblock never has one.
        bool_or(coalesce(b.cma > 0, z.free_cma > 0, l.cma_blocks[1] > 0, true))
            OVER (PARTITION BY z.tape, z.node, z.zone) AS has_cma,
        l.types,
        l.any_blocks,
        l.common_blocks,
        l.cma_blocks,
        l.highatomic_blocks
    FROM snapped AS z
    LEFT JOIN list AS l USING (tape, snapshot, node, zone)
    LEFT JOIN block AS b USING (tape, snapshot, node, zone)
),

mark AS (
    SELECT
        tape,
        node,
        zone,
        arg_min(struct_pack(managed, wmark_min, wmark_low, wmark_high, lowmem_reserve), snapshot) AS first,
        bool_or(has_cma) AS has_cma
    FROM known
    GROUP BY tape, node, zone
),

moment AS (
    SELECT
        tape,
        ts,
        node,
        zone::VARCHAR AS zone,
        list_transform(range(most + 1), lambda o: list_sum(list_transform(rows, lambda r: if(r.page_order >= o, r.pages, 0))))::BIGINT[] AS any_blocks
    FROM (
        SELECT
            tape, ts, node, zone, max(page_order) AS most,
            list({'page_order': page_order, 'pages': (nr_free << page_order::INTEGER)::BIGINT}) AS rows
        FROM free_count
        WHERE page_order < 20 AND (began IS NOT NULL OR "at" IS NULL)
        GROUP BY tape, ts, node, zone
    )
),

sampled AS (
    SELECT l.*, k.first, k.has_cma, b.value AS boost, h.value AS reserved
    FROM moment AS l
    JOIN mark AS k USING (tape, node, zone)
    ASOF LEFT JOIN (SELECT tape, node, zone::VARCHAR AS zone, ts, value FROM sample WHERE name = 'boost') AS b
        ON b.tape = l.tape AND b.node = l.node AND b.zone = l.zone AND b.ts <= l.ts
    ASOF LEFT JOIN (
        SELECT tape, node, zone::VARCHAR AS zone, ts, value FROM sample WHERE name = 'nr_reserved_highatomic'
    ) AS h
        ON h.tape = l.tape AND h.node = l.node AND h.zone = l.zone AND h.ts <= l.ts
),

-- The migratetypes of free blocks are not sampled.
every AS (
    SELECT
        * EXCLUDE (has_cma, types)
        REPLACE (
            if(types, common_blocks, NULL) AS common_blocks,
            if(types, cma_blocks, NULL) AS cma_blocks,
            if(types, highatomic_blocks, NULL) AS highatomic_blocks
        )
    FROM known
    UNION ALL BY NAME
    SELECT
        * EXCLUDE (first, has_cma, reserved),
        first.managed AS managed,
        any_blocks[1] AS free,
        first.wmark_min AS wmark_min,
        first.wmark_low AS wmark_low,
        first.wmark_high AS wmark_high,
        first.lowmem_reserve AS lowmem_reserve,
        reserved AS reserved_highatomic,
        if(reserved = 0, 0, NULL) AS free_highatomic,
        if(has_cma, NULL, 0) AS free_cma
    FROM sampled
)

SELECT
    tape,
    snapshot,
    ts,
    node,
    zone,
    list_position(['DMA', 'DMA32', 'NORMAL', 'HIGHMEM', 'MOVABLE', 'DEVICE'], zone) - 1 AS place,
    coalesce(bool_or(zone = 'HIGHMEM' AND managed > 0) OVER (PARTITION BY tape), false) AS has_highmem,
    * EXCLUDE (tape, snapshot, ts, node, zone)
FROM every

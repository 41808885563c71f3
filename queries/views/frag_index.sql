-- Free blocks of each zone and order with the kernel's indices, at every recorded moment.
--
-- Sources: the snapshots (free_area) and the moments between them (free_count), over
-- all migratetypes of a zone. Samples whose files share one stamp have no instant, and are left out. The indices are integers, truncated like the kernel's
-- (fill_contig_page_info, unusable_free_index, __fragmentation_index and
-- extfrag_for_order of mm/vmstat.c, the same from 5.9 to 6.18).
--
-- Columns:
--   tape                 VARCHAR    Name of the tape.
--   snapshot             USMALLINT  Number of the snapshot; null between snapshots.
--   ts                   UBIGINT    Trace clock, ns; 0 if the snapshot's time is unknown.
--   node                 USMALLINT  NUMA node.
--   zone                 VARCHAR    Zone.
--   page_order           UTINYINT   Order.
--   nr_free              BIGINT     Free blocks of that order.
--   free_blocks          BIGINT     Free blocks of the zone.
--   free_pages           BIGINT     Pages in them.
--   usable_pages         BIGINT     Free pages in blocks of at least that order.
--   unusable_free        BIGINT     unusable_free_index: 0 to 1000.
--   fragmentation_index  BIGINT     -1000, or 0 to 1000.
--   extfrag_for_order    BIGINT     0 to 100.
WITH state AS (
    SELECT tape, snapshot, ts, node, zone, page_order, sum(nr_free)::BIGINT AS nr_free
    FROM free_area
    GROUP BY ALL
    UNION ALL
    -- A replay may have split a zone in parts.
    SELECT tape, NULL, ts, node, zone, page_order, sum(nr_free)::BIGINT
    FROM free_count
    WHERE began IS NOT NULL OR "at" IS NULL
    GROUP BY ALL
),

summed AS (
    SELECT
        *,
        sum(nr_free) OVER of_zone AS free_blocks,
        sum(nr_free << page_order::INTEGER) OVER of_zone AS free_pages,
        sum(nr_free << page_order::INTEGER) OVER (
            PARTITION BY tape, snapshot, ts, node, zone ORDER BY page_order DESC
        ) AS usable_pages
    FROM state
    WINDOW of_zone AS (PARTITION BY tape, snapshot, ts, node, zone)
)

SELECT
    *,
    unusable_free_index(free_pages, usable_pages) AS unusable_free,
    fragmentation_index(page_order, free_blocks, free_pages, usable_pages) AS fragmentation_index,
    extfrag_for_order(free_pages, usable_pages) AS extfrag_for_order
FROM summed

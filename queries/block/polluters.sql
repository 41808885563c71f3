-- Pageblocks that fallbacks mixed: who put the first foreign page in, and who keeps it so.
--
-- One row is one pageblock with a fallback below pageblock order. `first_*` describes the first of these
-- fallbacks. `foreign_pages` are the pages of another migratetype than the block's that the tape allocated
-- there and did not free. `holder` is the task that allocated most of them. Blocks that are still mixed come
-- first; a block with few foreign pages is the cheapest to repair.
--
-- The task of a fallback refills a per-CPU list, and another task may get the page. In interrupt context the
-- task is the interrupted one. A page counts as used until its free is on the tape. Pages in use since
-- before the tape are not counted: after a `claim` they may be foreign, too. Stacks need a
-- recording with `--stacks extfrag`.
--
-- Needs: event.alloc_extfrag
-- Events: whole
-- Tier: A
--
-- Parameters:
--   top  BIGINT 0..1000000000 = 25  Maximum number of rows.
--
-- Columns:
--   block_pfn       UBIGINT    First pfn of the pageblock.
--   node            USMALLINT  NUMA node; null without a snapshot.
--   zone            VARCHAR    Zone; null without a snapshot.
--   migratetype     VARCHAR    Migratetype of the pageblock after the last fallback.
--   first_at_s      DOUBLE     Time of the first fallback, seconds after the tape's first event.
--   first_kind      VARCHAR    pollute (the block's migratetype stays) or claim (it changes).
--   first_comm      VARCHAR    Thread that ran, or its pid if the name is unknown.
--   first_cgroup    VARCHAR    Its control group, if known.
--   in_interrupt    BOOLEAN    The fallback ran in hard or soft interrupt context.
--   first_wanted    VARCHAR    Requested migratetype.
--   first_order     UTINYINT   Requested order.
--   first_callers   VARCHAR    Kernel functions that asked, innermost first; null without a stack.
--   fallbacks       BIGINT     Fallbacks below pageblock order in this pageblock.
--   foreign_pages   BIGINT     Foreign pages of the tape that are in use at the end; 0: none is known.
--   holder          VARCHAR    Task that allocated most of them; null if there is none.
--   holder_pages    BIGINT     Foreign pages that it allocated.
--   held_since_s    DOUBLE     Allocation of the oldest of the foreign pages, seconds after the tape's first event.
WITH fallback AS MATERIALIZED (
    SELECT f.*, (f.pfn >> m.pageblock_order)::BIGINT AS block
    FROM extfrag AS f
    JOIN machine AS m USING (tape)
    WHERE f.kind IS NOT NULL AND f.pfn IS NOT NULL
),

begun AS (
    SELECT *
    FROM fallback
    WHERE below_pageblock
    QUALIFY row_number() OVER (PARTITION BY tape, block ORDER BY ts, cpu) = 1
),

of_block AS MATERIALIZED (
    SELECT
        tape,
        block,
        arg_max(if(kind = 'steal', fallback_migratetype, alloc_migratetype), ts) AS migratetype,
        count(*) FILTER (below_pageblock) AS fallbacks
    FROM fallback
    GROUP BY tape, block
    HAVING bool_or(below_pageblock)
),

held AS (
    SELECT
        u.tape,
        b.block,
        coalesce(t.comm, u.pid::VARCHAR) AS comm,
        sum(1::BIGINT << least(u.page_order::INTEGER, 20)) AS pages,
        min(u.ts) AS since_ts
    FROM page_use AS u
    JOIN machine AS m USING (tape)
    JOIN of_block AS b ON b.tape = u.tape AND b.block = (u.pfn >> m.pageblock_order)::BIGINT
    LEFT JOIN task AS t USING (tape, pid)
    WHERE u.until_ts IS NULL AND u.migratetype <> b.migratetype::VARCHAR
    GROUP BY u.tape, b.block, coalesce(t.comm, u.pid::VARCHAR)
),

holder AS (
    SELECT
        tape,
        block,
        sum(pages)::BIGINT AS foreign_pages,
        first(comm ORDER BY pages DESC, comm) AS holder,
        max(pages)::BIGINT AS holder_pages,
        min(since_ts) AS since_ts
    FROM held
    GROUP BY tape, block
)

SELECT
    (f.block << m.pageblock_order)::UBIGINT AS block_pfn,
    z.node,
    z.zone::VARCHAR AS zone,
    b.migratetype::VARCHAR AS migratetype,
    round((f.ts::BIGINT - m.start_ts::BIGINT) / 1e9, 3) AS first_at_s,
    if(f.kind = 'steal', 'pollute', 'claim') AS first_kind,
    coalesce(t.comm, f.pid::VARCHAR) AS first_comm,
    t.cgroup AS first_cgroup,
    (f.flags & 6) <> 0 AS in_interrupt,
    f.alloc_migratetype::VARCHAR AS first_wanted,
    f.alloc_order AS first_order,
    c.callers AS first_callers,
    b.fallbacks,
    coalesce(h.foreign_pages, 0)::BIGINT AS foreign_pages,
    h.holder,
    h.holder_pages,
    round((h.since_ts::BIGINT - m.start_ts::BIGINT) / 1e9, 3) AS held_since_s
FROM begun AS f
JOIN machine AS m USING (tape)
JOIN of_block AS b USING (tape, block)
LEFT JOIN holder AS h USING (tape, block)
LEFT JOIN task AS t USING (tape, pid)
LEFT JOIN stack AS s ON s.tape = f.tape AND s.event_ts = f.ts AND s.cpu = f.cpu AND s.pid = f.pid
LEFT JOIN callers AS c ON c.tape = s.tape AND c.stack = s.stack
LEFT JOIN zone AS z
    ON z.tape = f.tape
    AND z.snapshot = 0
    AND f.pfn >= z.start_pfn
    AND f.pfn < z.start_pfn + z.spanned
ORDER BY coalesce(h.foreign_pages, 0) > 0 DESC, h.foreign_pages DESC, f.ts, block_pfn
LIMIT $top::BIGINT

-- Fallbacks that put pages that cannot move into MOVABLE pageblocks, and their largest sources.
--
-- A pageblock counts once, however many fallbacks hit it: kernels before 6.12 emit one event for a
-- whole run of free pages, later ones one event per page, so that events are not comparable.
-- Fallbacks of a whole pageblock mix nothing. `lasting_blocks` still hold such a page at the end of
-- the tape: an allocation on the tape that is not MOVABLE, and not freed since.
--
-- Columns:
--   fallbacks       BIGINT   Fallbacks of any kind.
--   harmful         BIGINT   Fallbacks below pageblock order of requests that are not MOVABLE, from a MOVABLE list.
--   movable_mixes   BIGINT   Fallbacks below pageblock order of MOVABLE requests.
--   blocks          BIGINT   Pageblocks with at least one harmful fallback.
--   lasting_blocks     BIGINT   Of `blocks`, those with a page that cannot move at the end.
--   movable_blocks  BIGINT   MOVABLE pageblocks at the start; null if unknown.
--   task            VARCHAR  Task with the most harmful fallbacks.
--   task_nr         BIGINT   Its harmful fallbacks.
--   task_interrupt  BIGINT   Of these, fallbacks in interrupt context: the task did not ask for them.
--   task_high       BIGINT   Of task_nr, fallbacks of requests above order 0.
--   cgroup          VARCHAR  Control group with the most; null if the tape has none.
--   cgroup_nr       BIGINT   Its harmful fallbacks.
--   stack           VARCHAR  Kernel stack with the most, outermost function first; null if the tape has none.
--   stack_nr        BIGINT   Its harmful fallbacks.
--   stacks          BIGINT   Harmful fallbacks with a stack.
WITH fallback AS MATERIALIZED (
    SELECT
        f.tape,
        f.ts,
        f.cpu,
        f.pid,
        (f.flags & 6) <> 0 AS in_interrupt,
        (f.pfn >> m.pageblock_order)::BIGINT AS block,
        f.alloc_migratetype,
        f.alloc_order,
        f.below_pageblock,
        f.below_pageblock AND f.alloc_migratetype <> 'MOVABLE' AND f.fallback_migratetype = 'MOVABLE' AS harmful
    FROM extfrag AS f
    JOIN machine AS m USING (tape)
),

harm AS MATERIALIZED (
    SELECT
        f.*,
        coalesce(t.comm, f.pid::VARCHAR) AS comm,
        t.cgroup,
        l.folded
    FROM fallback AS f
    LEFT JOIN task AS t USING (tape, pid)
    LEFT JOIN stack AS s ON s.tape = f.tape AND s.event_ts = f.ts AND s.cpu = f.cpu AND s.pid = f.pid
    LEFT JOIN folded AS l ON l.tape = s.tape AND l.stack = s.stack
    WHERE f.harmful
),

lasting AS (
    SELECT (u.pfn >> m.pageblock_order)::BIGINT AS block
    FROM page_in_use AS u
    JOIN machine AS m USING (tape)
    WHERE u.migratetype <> 'MOVABLE'
      AND (u.pfn >> m.pageblock_order)::BIGINT IN (SELECT block FROM harm)
),

-- pagetypeinfo has the kernel's own types, also where those of single pageblocks are guesses.
movable AS (
    SELECT coalesce(
        (SELECT sum(nr_blocks) FROM block_count WHERE snapshot = 0 AND migratetype = 'MOVABLE'),
        (SELECT nullif(count(*), 0) FROM pageblock WHERE snapshot = 0 AND migratetype = 'MOVABLE')
    )::BIGINT AS blocks
),

by_task AS (
    SELECT
        comm,
        count(*) AS nr,
        count(*) FILTER (in_interrupt) AS in_interrupt,
        count(*) FILTER (alloc_order > 0) AS high
    FROM harm
    GROUP BY comm
    ORDER BY nr DESC, comm
    LIMIT 1
),

by_cgroup AS (
    SELECT cgroup, count(*) AS nr
    FROM harm
    WHERE cgroup IS NOT NULL
    GROUP BY cgroup
    ORDER BY nr DESC, cgroup
    LIMIT 1
),

by_stack AS (
    SELECT folded, count(*) AS nr, sum(count(*)) OVER ()::BIGINT AS stacks
    FROM harm
    WHERE folded IS NOT NULL
    GROUP BY folded
    ORDER BY nr DESC, folded
    LIMIT 1
)

SELECT
    (SELECT count(*) FROM fallback) AS fallbacks,
    (SELECT count(*) FROM harm) AS harmful,
    (SELECT count(*) FROM fallback WHERE below_pageblock AND alloc_migratetype = 'MOVABLE') AS movable_mixes,
    (SELECT count(DISTINCT block) FROM harm) AS blocks,
    (SELECT count(DISTINCT block) FROM lasting) AS lasting_blocks,
    movable.blocks AS movable_blocks,
    t.comm AS task,
    t.nr AS task_nr,
    t.in_interrupt AS task_interrupt,
    t.high AS task_high,
    c.cgroup AS cgroup,
    c.nr AS cgroup_nr,
    s.folded AS stack,
    s.nr AS stack_nr,
    s.stacks AS stacks
FROM movable
LEFT JOIN by_task AS t ON true
LEFT JOIN by_cgroup AS c ON true
LEFT JOIN by_stack AS s ON true

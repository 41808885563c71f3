-- Failed allocations, and those that may not wait: by order, context and task.
--
-- A failed allocation is an event without a page. The report also counts requests that cannot
-- wait for reclaim, although they succeeded: they fail first when memory is short. `context` comes from the
-- gfp flags:
--
--   atomic    must not sleep, and may use part of the reserve (GFP_ATOMIC)
--   nowait    must not sleep, and may not use the reserve (GFP_NOWAIT)
--   optional  may reclaim, but has another way: NORETRY or RETRY_MAYFAIL
--   waits     may reclaim, and the kernel tries for long (GFP_KERNEL, user pages)
--
-- The kernel logs a failure (`page allocation failure`) unless the request has NOWARN: `logged` counts those without it.
-- In interrupt context the task is the interrupted one. A caller that repeats a request with other flags
-- counts each time. The event of a failed request comes at the end of its slow path.
--
-- Free memory is not memory for every request: `usable_pages` is what this kind of request may use of it, by the rules of the
-- tape's kernel (see alloc.usable).
--
-- Needs: event.alloc
-- Events: whole
-- Tier: A
--
-- Parameters:
--   top  BIGINT 0..1000000000 = 25  Maximum number of rows.
--
-- Columns:
--   context         VARCHAR   atomic, nowait, optional or waits.
--   page_order      UTINYINT  Requested order.
--   migratetype     VARCHAR   Requested migratetype.
--   comm            VARCHAR   Thread, or its pid if the name is unknown.
--   in_interrupt    BOOLEAN   The request came from hard or soft interrupt context.
--   allocs          BIGINT    Requests of this kind, failed or not.
--   failed          BIGINT    Of these, requests that failed.
--   failed_percent  DOUBLE    failed of allocs, in percent.
--   logged          BIGINT    Of the failed ones, requests that the kernel logs.
--   first_at_s      DOUBLE    First failure, seconds after the tape's first event.
--   last_at_s       DOUBLE    Last failure, seconds after the tape's first event.
--   free_pages      BIGINT    Free pages of the machine at the first failure, counted from the page events; without those of the per-CPU lists, at the reading nearest to it.
--   usable_pages    BIGINT    Of these, pages in zones that such a request may take, less CMA, HIGHATOMIC and lowmem_reserve if it may not use them.
--   at_most         BOOLEAN   There are at most usable_pages: the CMA or HIGHATOMIC pages of that moment are unknown.
--   near_s          DOUBLE    Distance to that reading, in seconds; 0 where counted.
--   gfp_flags       VARCHAR   Most frequent gfp flags of the failed requests, or of all if none failed.
--   error_pages     BIGINT    How far the count was off at the readings after it, summed over the zones; null where not counted, and after the last reading.
WITH request AS (
    SELECT
        g.*,
        coalesce(t.comm, g.pid::VARCHAR) AS comm,
        gfp_has(g.gfp_flags, 'NOWARN') AS silent,
        CASE
            WHEN NOT gfp_has(g.gfp_flags, 'DIRECT_RECLAIM')
                THEN if(gfp_has(g.gfp_flags, 'HIGH') OR gfp_has(g.gfp_flags, 'ATOMIC'), 'atomic', 'nowait')
            WHEN gfp_has(g.gfp_flags, 'NORETRY') OR gfp_has(g.gfp_flags, 'RETRY_MAYFAIL') THEN 'optional'
            ELSE 'waits'
        END AS context
    FROM event_group AS g
    LEFT JOIN task AS t USING (tape, pid)
    WHERE g.kind = 'alloc'
),

-- The same with other gfp flags are one kind.
flagged AS (
    SELECT
        tape,
        context,
        page_order,
        migratetype,
        comm,
        in_interrupt,
        gfp_flags,
        sum(events) AS allocs,
        sum(without_page) AS failed,
        coalesce(sum(without_page) FILTER (NOT silent), 0) AS logged,
        min(first_ts) AS first_ts,
        max(last_ts) AS last_ts
    FROM request
    GROUP BY ALL
),

kind AS MATERIALIZED (
    SELECT
        tape,
        context,
        page_order,
        migratetype,
        comm,
        in_interrupt,
        sum(allocs)::BIGINT AS allocs,
        sum(failed)::BIGINT AS failed,
        sum(logged)::BIGINT AS logged,
        min(first_ts) AS first_ts,
        max(last_ts) AS last_ts,
        coalesce(
            first(gfp_flags ORDER BY failed DESC, gfp_flags) FILTER (failed > 0 AND gfp_flags IS NOT NULL),
            first(gfp_flags ORDER BY allocs DESC, gfp_flags) FILTER (gfp_flags IS NOT NULL)
        ) AS gfp_flags
    FROM flagged
    GROUP BY tape, context, page_order, migratetype, comm, in_interrupt
    HAVING sum(failed) > 0 OR context IN ('atomic', 'nowait')
),

moment AS (
    SELECT tape, ts, sum(free)::BIGINT AS free_pages
    FROM zone_state
    WHERE ts > 0
    GROUP BY tape, ts
),

first AS (
    SELECT DISTINCT tape, first_ts FROM kind WHERE first_ts IS NOT NULL
),

counted AS (
    SELECT tape, ts AS first_ts, sum(free_pages)::BIGINT AS free_pages, sum(abs(error_pages))::BIGINT AS error_pages
    FROM free_at_failure
    GROUP BY tape, ts
),

near AS (
    SELECT
        k.tape,
        k.first_ts,
        arg_min(m.ts, abs(m.ts::BIGINT - k.first_ts::BIGINT)) AS ts,
        arg_min(m.free_pages, abs(m.ts::BIGINT - k.first_ts::BIGINT)) AS free_pages,
        min(abs(m.ts::BIGINT - k.first_ts::BIGINT)) / 1e9 AS near_s
    FROM first AS k
    JOIN moment AS m USING (tape)
    GROUP BY k.tape, k.first_ts
),

usable AS (
    SELECT
        k.tape,
        k.first_ts,
        k.gfp_flags,
        k.page_order,
        k.migratetype,
        sum(greatest(usable_pages(z, k.rq, k.m), 0))::BIGINT AS pages,
        NOT bool_and(unusable_known(z, k.rq, k.m)) AS at_most
    FROM (
        SELECT DISTINCT
            k.tape,
            k.first_ts,
            n.ts,
            k.gfp_flags,
            k.page_order,
            k.migratetype,
            m,
            alloc_request(k.gfp_flags, k.page_order, k.migratetype, h.has_highmem, m) AS rq
        FROM kind AS k
        JOIN near AS n USING (tape, first_ts)
        JOIN machine AS m USING (tape)
        JOIN (SELECT tape, bool_or(has_highmem) AS has_highmem FROM zone_state GROUP BY tape) AS h USING (tape)
    ) AS k
    JOIN zone_state AS z ON z.tape = k.tape AND z.ts = k.ts AND z.place <= k.rq['zone']
    GROUP BY ALL
)

SELECT
    k.context,
    k.page_order,
    k.migratetype,
    k.comm,
    k.in_interrupt,
    k.allocs,
    k.failed,
    round(100 * k.failed / k.allocs, 3) AS failed_percent,
    k.logged,
    round((k.first_ts::BIGINT - m.start_ts::BIGINT) / 1e9, 3) AS first_at_s,
    round((k.last_ts::BIGINT - m.start_ts::BIGINT) / 1e9, 3) AS last_at_s,
    coalesce(c.free_pages, n.free_pages) AS free_pages,
    if(c.free_pages IS NULL, u.pages, f.usable_pages) AS usable_pages,
    if(c.free_pages IS NULL, u.at_most, f.at_most) AS at_most,
    if(c.free_pages IS NULL, round(n.near_s, 3), 0) AS near_s,
    gfp_names(coalesce(k.gfp_flags, 0)) AS gfp_flags,
    c.error_pages
FROM kind AS k
JOIN machine AS m USING (tape)
LEFT JOIN near AS n ON n.tape = k.tape AND n.first_ts = k.first_ts
LEFT JOIN counted AS c ON c.tape = k.tape AND c.first_ts = k.first_ts
LEFT JOIN usable AS u
    ON u.tape = k.tape
    AND u.first_ts = k.first_ts
    AND u.gfp_flags IS NOT DISTINCT FROM k.gfp_flags
    AND u.page_order = k.page_order
    AND u.migratetype IS NOT DISTINCT FROM k.migratetype
LEFT JOIN (
    SELECT
        tape,
        ts,
        page_order,
        migratetype,
        any_value(usable_pages) AS usable_pages,
        any_value(at_most) AS at_most
    FROM failed_alloc
    GROUP BY tape, ts, page_order, migratetype
) AS f
    ON f.tape = k.tape AND f.ts = k.first_ts AND f.page_order = k.page_order AND f.migratetype = k.migratetype
ORDER BY k.failed DESC, k.allocs DESC, k.context, k.page_order, k.comm, k.migratetype, k.in_interrupt
LIMIT $top::BIGINT

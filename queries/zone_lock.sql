-- Zone lock load: holds, hold times and waits of each zone lock.
--
-- `--policy zone_lock` models each lock as a queue of the model's own lock requests. A replay
-- without it only counts the requests; the time columns are null. Hold times come from
-- the lock profile. The CPU clocks do not advance during a wait. Bursts of waiting are
-- therefore longer than in the real machine, and an overload is shorter. Above a
-- utilisation of 0.7 the verdict is `saturated`: the order of the policies is meaningful,
-- the numbers are not. `synthetic` marks a load whose CPUs were overlaid (`cpu_scale`).
--
-- Tapes: several
-- Tier: A
--
-- Columns:
--   tape             VARCHAR    The tape.
--   node             USMALLINT  NUMA node.
--   zone             VARCHAR    Zone.
--   part             USMALLINT  Part of a split zone; each part has its own lock.
--   holds            BIGINT     Number of times the lock was taken.
--   holds_per_s      DOUBLE     Number of times the lock was taken, per second.
--   refills          BIGINT     Holds for refills of the per-CPU lists.
--   drains           BIGINT     Holds for drains of full lists.
--   decays           BIGINT     Holds for drains by the vmstat tick.
--   direct           BIGINT     Holds for one allocation or free that bypasses the lists.
--   mean_hold_us     DOUBLE     Mean hold time, in us.
--   utilisation      DOUBLE     Share of the time that the lock was held, 0 to 1.
--   mean_wait_us     DOUBLE     Mean wait time of a request, in us.
--   p99_wait_us      DOUBLE     Wait time that 1 % of the requests exceed, in us; accurate to one fifth.
--   waiting_percent  DOUBLE     Share of the time during which at least one CPU waited, in percent.
--   verdict          VARCHAR    saturated, synthetic or ok; counted if the replay did not model the queue.
WITH counted AS (
    SELECT
        tape,
        node,
        zone,
        part,
        max(copies) AS copies,
        sum(holds) AS holds,
        sum(holds) FILTER (kind = 'refill') AS refills,
        sum(holds) FILTER (kind = 'drain') AS drains,
        sum(holds) FILTER (kind = 'decay') AS decays,
        sum(holds) FILTER (kind IN ('alloc', 'free')) AS direct,
        sum(hold_ns) AS hold_ns,
        sum(wait_ns) AS wait_ns,
        sum(waiting_ns) AS waiting_ns
    FROM zone_lock
    GROUP BY tape, node, zone, part
    UNION ALL
    SELECT
        tape,
        node,
        zone,
        0::USMALLINT,
        NULL,
        sum(lock_holds),
        sum(refills),
        sum(drains),
        sum(decays),
        sum(lock_holds) - sum(refills) - sum(drains) - sum(decays),
        NULL,
        NULL,
        NULL
    FROM counter
    WHERE tape NOT IN (SELECT tape FROM zone_lock)
    GROUP BY tape, node, zone
),

wait AS (
    SELECT tape, node, zone, part, upto_ns, sum(nr) AS nr
    FROM lock_wait
    GROUP BY ALL
),

ranked AS (
    SELECT
        tape,
        node,
        zone,
        part,
        upto_ns,
        sum(nr) OVER (PARTITION BY tape, node, zone, part ORDER BY upto_ns) AS so_far,
        sum(nr) OVER (PARTITION BY tape, node, zone, part) AS total
    FROM wait
),

p99 AS (
    SELECT tape, node, zone, part, min(upto_ns) AS wait_ns
    FROM ranked
    WHERE so_far >= 0.99 * total
    GROUP BY ALL
),

measured AS (
    SELECT
        counted.*,
        p.wait_ns AS p99_wait_ns,
        (m.end_ts - m.start_ts)::DOUBLE AS length_ns
    FROM counted
    JOIN machine AS m USING (tape)
    LEFT JOIN p99 AS p USING (tape, node, zone, part)
)

SELECT
    * REPLACE (
        coalesce(refills, 0)::BIGINT AS refills,
        coalesce(drains, 0)::BIGINT AS drains,
        coalesce(decays, 0)::BIGINT AS decays,
        coalesce(direct, 0)::BIGINT AS direct
    ),
    round(holds / nullif(length_ns, 0) * 1e9, 1) AS holds_per_s,
    round(hold_ns / nullif(holds, 0) / 1000, 3) AS mean_hold_us,
    round(hold_ns / nullif(length_ns, 0), 9) AS utilisation,
    round(wait_ns / nullif(holds, 0) / 1000, 3) AS mean_wait_us,
    round(p99_wait_ns / 1000, 3) AS p99_wait_us,
    round(100 * waiting_ns / nullif(length_ns, 0), 9) AS waiting_percent,
    CASE
        WHEN copies IS NULL THEN 'counted'
        WHEN hold_ns / nullif(length_ns, 0) > 0.7 THEN 'saturated'
        WHEN copies > 1 THEN 'synthetic'
        ELSE 'ok'
    END AS verdict
FROM measured
ORDER BY tape, node, zone, part

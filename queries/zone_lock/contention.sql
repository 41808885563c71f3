-- Waits for the lock of each zone: recorded (`pagetape record --events page,lock`), or modelled (`replay --policy zone_lock`).
--
-- A CPU that finds a zone's lock taken waits, with preemption off. `cpu_percent` is the share of the CPU time of the
-- machine that goes to these waits. Give a recording and its replay to see both beside one another.
--
-- The model counts each request that waits. The kernel reports a wait only from the queue of the lock: on bare metal the
-- first of several waiters has no event, in a guest of KVM each has one, and in guests without paravirtual spinlocks none has.
-- The recorded figures are lower bounds. A zone without a wait has no row.
--
-- Needs: lock_event or lock_wait or zone_lock
-- Tapes: several
-- Tier: A
--
-- Columns:
--   tape         VARCHAR    The tape.
--   node         USMALLINT  NUMA node.
--   zone         VARCHAR    Zone.
--   source       VARCHAR    recorded: events of the kernel; modelled: the queue of the policy zone_lock.
--   contentions  BIGINT     Times that a CPU had to wait for the lock.
--   per_s        DOUBLE     The same per second.
--   wait_ms      DOUBLE     Waiting time of all CPUs, in ms.
--   p50_us       DOUBLE     Median wait, in us; of the model accurate to one fifth.
--   p99_us       DOUBLE     Wait that 1 % of the waits exceed, in us; of the model accurate to one fifth.
--   max_us       DOUBLE     Longest wait, in us; of the model accurate to one fifth.
--   cpu_percent  DOUBLE     Waiting time as a share of the CPU time of the machine, in percent.
--   cut          BIGINT     Waits whose end is not on the tape: they have no time.
--   releases     BIGINT     Releases of the lock while a CPU waited for it; null of the model, and before 7.2.
WITH waited AS (
    SELECT
        tape,
        node,
        zone,
        'recorded' AS source,
        count(*) AS contentions,
        sum(wait_ns) AS wait_ns,
        quantile_disc(wait_ns, 0.5) AS p50_ns,
        quantile_disc(wait_ns, 0.99) AS p99_ns,
        max(wait_ns) AS max_ns,
        count(*) - count(wait_ns) AS cut,
        1 AS copies
    FROM contention
    GROUP BY tape, node, zone
),

bucket AS (
    SELECT tape, node, zone::VARCHAR AS zone, upto_ns, sum(nr) AS nr
    FROM lock_wait
    WHERE upto_ns > 0
    GROUP BY ALL
),

ranked AS (
    SELECT
        *,
        sum(nr) OVER (PARTITION BY tape, node, zone ORDER BY upto_ns) AS so_far,
        sum(nr) OVER (PARTITION BY tape, node, zone) AS total
    FROM bucket
),

modelled AS (
    SELECT
        tape,
        node,
        zone,
        'modelled' AS source,
        any_value(total) AS contentions,
        any_value(l.wait_ns) AS wait_ns,
        min(upto_ns) FILTER (so_far >= 0.5 * total) AS p50_ns,
        min(upto_ns) FILTER (so_far >= 0.99 * total) AS p99_ns,
        max(upto_ns) AS max_ns,
        0 AS cut,
        any_value(l.copies) AS copies
    FROM ranked
    JOIN (
        SELECT tape, node, zone::VARCHAR AS zone, sum(wait_ns) AS wait_ns, max(copies) AS copies
        FROM zone_lock
        GROUP BY ALL
    ) AS l USING (tape, node, zone)
    GROUP BY tape, node, zone
),

released AS (
    SELECT tape, node, zone::VARCHAR AS zone, count(*) AS releases
    FROM lock_event
    WHERE kind = 'release'
    GROUP BY ALL
)

SELECT
    w.*,
    round(w.contentions / nullif((m.end_ts - m.start_ts) / 1e9, 0), 1) AS per_s,
    round(w.wait_ns / 1e6, 3) AS wait_ms,
    round(w.p50_ns / 1e3, 3) AS p50_us,
    round(w.p99_ns / 1e3, 3) AS p99_us,
    round(w.max_ns / 1e3, 3) AS max_us,
    round(100 * w.wait_ns / nullif((m.end_ts - m.start_ts)::DOUBLE * m.cpus * w.copies, 0), 6) AS cpu_percent,
    r.releases
FROM (FROM waited UNION ALL FROM modelled) AS w
JOIN machine AS m USING (tape)
LEFT JOIN released AS r ON r.tape = w.tape AND r.node = w.node AND r.zone = w.zone AND w.source = 'recorded'
ORDER BY w.tape, w.node, w.zone, w.source DESC

-- Cohorts of a fleet compared: which rates of rare events differ more than chance among hosts explains.
--
-- --by names the columns of fleet_tape that tell cohorts apart (default kernel), or --change a moment: then the cohorts are
-- `before` and `after` it. Every cohort is compared with the base: the first one, in the order of versions, or --base. A
-- host is one value of each metric, events per hour of all its tapes in the cohort, however many events it has.
--
-- If most hosts are in both cohorts, each host is compared with itself (signed ranks); else hosts of one with hosts of the
-- other (rank sums). p counts permutations of hosts, and is adjusted for all rows together (Holm): in 1 of 20 reports about
-- equal cohorts, at most, is a row better or worse by chance. Verdicts: worse, better, no difference shown, or too few
-- hosts: even the largest difference would be no evidence. Cohorts differ in more than what names them, in size or load for
-- example: compare hosts of one kind with --where.
--
-- Tier: -
--
-- Parameters:
--   base    VARCHAR  Name of the cohort that the others are compared with.  [default: the first one]
--   change  VARCHAR  Time of a change, UTC, as 2026-11-29 or 2026-11-29T12:00: cohorts are before and after it.
--
-- Columns:
--   metric         VARCHAR  What is counted: see the view rare_metric.
--   base           VARCHAR  Cohort that is compared with.
--   cohort         VARCHAR  Cohort that the verdict is about.
--   verdict        VARCHAR  worse, better, no difference shown or too few hosts.
--   ratio          DOUBLE   Rate of the cohort to that of the base, 1 per hour added to both: of the medians over hosts, or the median over hosts of a host's own ratio.
--   low            DOUBLE   Lower limit of its 80 % interval, hosts resampled; null for fewer than 4 hosts.
--   high           DOUBLE   Upper limit.
--   median_base    DOUBLE   Median over the hosts of the base, per hour.
--   median_cohort  DOUBLE   Median over the hosts of the cohort, per hour.
--   share_higher   DOUBLE   Of the pairs of a host of each cohort, or of hosts: those with a higher rate in the cohort, equal ones half, in percent.
--   p              DOUBLE   Adjusted p value.
--   hosts_base     BIGINT   Hosts of the base that count.
--   hosts_cohort   BIGINT   Hosts of the cohort that count.
--   paired         BOOLEAN  Each host is compared with itself.
SELECT
    * REPLACE (
        round(ratio, 4) AS ratio,
        round(low, 4) AS low,
        round(high, 4) AS high,
        round(median_base, 6) AS median_base,
        round(median_cohort, 6) AS median_cohort,
        round(share_higher, 1) AS share_higher
    )
FROM archived_comparison
WHERE cohort IS DISTINCT FROM $base AND ($change IS NULL OR cohort = 'after')
ORDER BY p, abs(ln(ratio)) DESC, metric, cohort

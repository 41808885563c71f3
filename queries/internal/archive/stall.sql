-- Rows of fleet_stall for one tape.
--
-- Columns: of fleet_stall, without the tape
SELECT
    what,
    class,
    if(us < 1, -1, floor(4 * log2(greatest(us, 1)))::INTEGER) AS bucket,
    count(*) AS stalls,
    round(sum(us), 3) AS total_us,
    max(us) AS max_us
FROM stall_length
GROUP BY ALL
ORDER BY what, class, bucket

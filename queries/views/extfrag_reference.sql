-- Fallbacks below order 9 that the authors of the series merged in Linux 5.0 measured.
--
-- Mel Gorman, "Fragmentation avoidance improvements v5", LKML, 23 November 2018: patch 1/5
-- (20181123114528.28802-2-mgorman@techsingularity.net) for 4.20-rc3 and +1, which is
-- nofragment:mode=lowzone, and for the migratetypes; patch 5/5 for +1-4, which adds
-- watermark_boost, and +1-5, which adds stall and was not merged. Load: thpfioscale of
-- mmtests, four fio writers, then threads that request huge pages, on XFS.
--
-- Columns:
--   machine            VARCHAR  Machine and load.
--   kernel             VARCHAR  4.20-rc3, and the patches of the series applied to it.
--   place              INTEGER  Position: rows sort in the order of the mails.
--   alloc_migratetype  VARCHAR  Requested migratetype; null is all.
--   nr                 BIGINT   Fallbacks below order 9.
SELECT machine, kernel, place, alloc_migratetype, nr::BIGINT AS nr
FROM (
    VALUES
    ('1-socket Skylake', '4.20-rc3', 10, NULL, 804694),
    ('1-socket Skylake', '4.20-rc3 +1', 11, NULL, 408912),
    ('1-socket Skylake', '4.20-rc3 +1-4', 12, NULL, 18421),
    ('1-socket Skylake', '4.20-rc3 +1-5', 13, NULL, 16788),
    ('1-socket Skylake', '4.20-rc3', 10, 'UNMOVABLE', 3816),
    ('1-socket Skylake', '4.20-rc3', 10, 'MOVABLE', 800845),
    ('1-socket Skylake', '4.20-rc3', 10, 'RECLAIMABLE', 33),
    ('1-socket Skylake', '4.20-rc3 +1', 11, 'UNMOVABLE', 735),
    ('1-socket Skylake', '4.20-rc3 +1', 11, 'MOVABLE', 408135),
    ('1-socket Skylake', '4.20-rc3 +1', 11, 'RECLAIMABLE', 42),
    ('1-socket Skylake, MADV_HUGEPAGE', '4.20-rc3', 20, NULL, 291392),
    ('1-socket Skylake, MADV_HUGEPAGE', '4.20-rc3 +1', 21, NULL, 191187),
    ('1-socket Skylake, MADV_HUGEPAGE', '4.20-rc3 +1-4', 22, NULL, 13464),
    ('1-socket Skylake, MADV_HUGEPAGE', '4.20-rc3 +1-5', 23, NULL, 15089),
    ('2-socket Haswell', '4.20-rc3', 30, NULL, 215698),
    ('2-socket Haswell', '4.20-rc3 +1', 31, NULL, 200210),
    ('2-socket Haswell', '4.20-rc3 +1-4', 32, NULL, 14263),
    ('2-socket Haswell', '4.20-rc3 +1-5', 33, NULL, 11702),
    ('2-socket Haswell, MADV_HUGEPAGE', '4.20-rc3', 40, NULL, 166352),
    ('2-socket Haswell, MADV_HUGEPAGE', '4.20-rc3 +1', 41, NULL, 147463),
    ('2-socket Haswell, MADV_HUGEPAGE', '4.20-rc3 +1-4', 42, NULL, 11095),
    ('2-socket Haswell, MADV_HUGEPAGE', '4.20-rc3 +1-5', 43, NULL, 10677)
) AS v (machine, kernel, place, alloc_migratetype, nr)

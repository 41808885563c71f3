-- A request for the other macros: its highest zone, and its rights in the slow path.
--
-- The rights are those of gfp_to_alloc_flags, by the row of the tape's kernel (the features in `m`, a row of the
-- view machine): `high` (ALLOC_HIGH, MIN_RESERVE), `harder` (HARDER, NON_BLOCK), `highatomic` (HIGHATOMIC), and
-- `unboosted`, the right to ignore the boost of the min watermark. A request that succeeds at the first try needs
-- none of them. Rights of the task (PF_MEMALLOC, a victim of the OOM killer) are not in the flags.
CREATE TEMP MACRO alloc_request(gfp_flags, page_order, migratetype, has_highmem, m) AS
{
    'page_order': page_order::INTEGER,
    'zone': gfp_zone(gfp_flags, has_highmem),
    'movable': coalesce(migratetype = 'MOVABLE', false),
    'high': gfp_has(gfp_flags, 'HIGH'),
    'harder': may_try_harder(gfp_flags, m),
    'highatomic': page_order > 0
    AND m['highatomic'] <> 'HIGHATOMIC_NONE'
    AND may_try_harder(gfp_flags, m)
    AND (gfp_has(gfp_flags, 'HIGH') OR NOT m['highatomic_needs_high']),
    'unboosted': page_order = 0
    AND CASE m['unboosted_right']
        WHEN 'UNBOOSTED_ATOMIC'
            THEN gfp_has(gfp_flags, 'ATOMIC') OR (gfp_has(gfp_flags, 'HIGH') AND NOT gfp_has(gfp_flags, 'DIRECT_RECLAIM'))
        WHEN 'UNBOOSTED_HIGH' THEN gfp_has(gfp_flags, 'HIGH')
        ELSE false
    END
}

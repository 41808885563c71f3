/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.h - zones cut into parts, for the policies that lay out the machine anew.
 *
 * Part i of n is the i-th of n equal ranges of a zone's pfns, rounded to blocks of the
 * largest order, so that no free block of a snapshot is in two parts. It has its share of
 * the zone's pages, of its watermarks, reserves and boost. A zone too small for n parts
 * has fewer.
 */
#pragma once

#include "machine.h"

/*
 * Cut every one of `nr` zones into `parts`; zones[].part says which one it is. -E2BIG if
 * they are more than `most`.
 */
int layout_cut(struct zone_spec *zones, int *nr, int most, int max_order, int parts,
	       struct error *err);

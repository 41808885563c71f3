/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_rows.h - from copies of kernel memory to rows of a tape, with checks on the way. */
#pragma once

#include "snapshot.h"
#include "snapshot_image.h"

/* All that the programs left behind; see snapshot_image.h. */
struct snapshot_images {
	const struct control *control;
	const struct zone_place *places;
	struct zone_image *zones;
	struct pcp_image *pcps;
	const struct section_image *sections;
	const uint64_t *nodes;
	const uint8_t *online; /* by CPU: whether it has rows */
	unsigned int pageblock_order;
	unsigned int thp_order; /* of the PCP lists after the costly orders */
};

/* The zone did not move between its two copies; the sections' bits neither. */
bool zone_still(const struct snapshot_images *im, uint32_t z);

/* The free list did not move between the two copies of its zone, and was walked whole. */
bool list_still(const struct snapshot_images *im, uint32_t z, uint32_t list);

/* The PCP (z * nr_cpus + cpu) did not move between its two copies, and was walked whole. */
bool pcp_still(const struct snapshot_images *im, uint32_t i);

/* Not walked, or not to the end, for lack of time or room. */
bool zone_cut_short(const struct snapshot_images *im, uint32_t z);
bool pcp_cut_short(const struct snapshot_images *im, uint32_t i);

/* All lists of the zone were walked to their ends. */
bool zone_whole(const struct snapshot_images *im, uint32_t z);

/* Not every index of zone_image.list names a list of this kernel. */
bool list_exists(const struct snapshot_images *im, uint32_t list);

/* Bits that the kernel keeps for each pageblock. */
unsigned int pageblock_bits(const struct kernel_layout *l);

/*
 * Make the tables of snapshot `nr`. `zones[].how` and the counts of moved lists are the
 * caller's; the rest of them and `out->checks`, `out->tables` are filled here. -ENOMEM.
 */
int snapshot_rows(const struct snapshot_images *im, uint16_t nr, struct snapshot_zone *zones,
		  struct snapshot_result *out, struct error *err);

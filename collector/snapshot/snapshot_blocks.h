/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_blocks.h - pageblocks in a snapshot, and the tape's numbers of zones and types. */
#pragma once

#include "snapshot_still.h"
#include "tables.h"

enum { UNKNOWN = 0xff }; /* no number of the tape: a hole, or an unknown name */

struct block {
	uint8_t type; /* MIGRATETYPE_*, UNKNOWN in a hole */
	bool isolated;
};

/* Bits that the kernel keeps for each pageblock. */
unsigned int pageblock_bits(const struct kernel_layout *l);

/* The pageblock of `pfn`, which zone z must span; type UNKNOWN in a hole. */
struct block block_at(const struct snapshot_images *im, uint32_t z, uint64_t pfn);

/* The tape's number of zone `index` of a node, or UNKNOWN. */
uint8_t zone_number(const struct snapshot_images *im, uint32_t index);

/* The tape's number of one of the kernel's migratetypes, or UNKNOWN. */
uint8_t migratetype(const struct kernel_layout *l, unsigned int type);

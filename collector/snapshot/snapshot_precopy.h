/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot_precopy.h - an exact snapshot that holds no lock and no CPU for long, as the live
 * migration of a virtual machine.
 *
 *   copy    All lists are followed without a lock. Each entry is verified when it is visited. The
 *           result is the image: right for every page that no event touches.
 *   events  Meanwhile programs on the allocator's events mark the pages of the image that an
 *           event may have moved ("touched").
 *   passes  A free list changes by insertion at its ends, by removal, and by turning it over, so
 *           untouched entries keep their order around a circle. Each pass visits the new ends of
 * all lists, then looks at the touched pages. The lists of a PCP even change only at their ends.
 *   cut     All CPUs meet for a moment. One allocates: under the zone's lock, its event copies the
 *           counters, the ends that are still new, and the state of the pages that are still
 *           touched. The other CPUs do the same with their PCPs and the other zones.
 *   join    The image, the ends and the states give the lists at the cut.
 *
 * What has no event cannot be wrong silently: no insertion is missed, because every end is walked
 * up to a known entry. So a removal without an event leaves more entries than the kernel's own
 * counter, and the attempt counts as failed.
 */
#pragma once

#include "snapshot_still.h"

#include "error.h"

/* What the programs left of one attempt. */
struct precopy_data {
	const struct segment *segments;
	const struct touch *touches;
	const struct claim *claims;
	const struct page_bits *bits;
	const uint64_t *section_bits;
	struct section_image *sections;
};

/* The joined lists: what snapshot_images.nodes shows then. */
struct joined {
	uint64_t *nodes;
	uint64_t nr, room;
	uint32_t wrong_list; /* its number in segments, or the last one of the order that is
				MISCOUNTED; NO_LIST: something else is wrong */
};

#define NO_LIST UINT32_MAX

enum join_result {
	JOINED,
	MISCOUNTED,   /* the zone has fewer entries: some went without an event */
	CONTRADICTED, /* an entry is in the wrong list, or the data is not complete */
	RETYPED,      /* a pageblock changed its type without an event */
};

/*
 * Make the lists of all zones and PCPs, and the bits of their pageblocks, as they were at the cut.
 * `im->nodes` has the visited entries; `zones` and `pcps` get list images that point into
 * `joined`.
 */
enum join_result precopy_join(struct snapshot_images *im, const struct precopy_data *data,
			      struct joined *joined);

/* Whether one of the maps has too little room: the attempt has lost something. */
bool precopy_full(const struct control *c);

struct snapshot;
struct snapshot_result;

/* As snapshot_take(). */
int precopy_take(struct snapshot *s, uint16_t nr, struct snapshot_result *out, struct error *err);

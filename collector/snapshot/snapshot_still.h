/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot_still.h - reads copies of kernel structs, and compares two copies: did a zone or PCP
 * change?
 */
#pragma once

#include "snapshot.h"
#include "snapshot_image.h"

#include <string.h>

/* The results of the programs; see snapshot_image.h. */
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

static inline uint64_t read_number(const uint8_t *image, unsigned int offset, unsigned int size)
{
	uint64_t value = 0;

	memcpy(&value, image + offset, size <= sizeof(value) ? size : sizeof(value));
	return value;
}

static inline uint64_t read_field(const uint8_t *image, struct kernel_field field)
{
	return read_number(image, field.offset, field.size);
}

/* Element i of an array of longs. */
static inline uint64_t read_long(const uint8_t *image, struct kernel_field array, unsigned int i)
{
	return (i + 1) * sizeof(uint64_t) <= array.size
		       ? read_number(image, array.offset + i * sizeof(uint64_t), sizeof(uint64_t))
		       : 0;
}

static inline unsigned int layout_orders(const struct kernel_layout *l)
{
	return l->zone.free_area.size / l->free_area_size;
}

static inline unsigned int layout_types(const struct kernel_layout *l)
{
	return l->free_list.size / 16; /* struct list_head */
}

static inline unsigned int layout_pcp_lists(const struct kernel_layout *l)
{
	return l->pcp.lists.size / 16;
}

static inline uint64_t nr_free(const struct kernel_layout *l, const uint8_t *zone,
			       unsigned int order)
{
	return read_number(zone,
			   l->zone.free_area.offset + order * l->free_area_size + l->nr_free.offset,
			   l->nr_free.size);
}

/* The first word of any kind of spinlock is 0 while it is free. */
static inline bool unlocked(const uint8_t *image, struct kernel_field lock)
{
	return !read_number(image, lock.offset, lock.size < 4 ? lock.size : 4);
}

/* The zone's free areas did not change between the two copies of its struct, nor was it locked. */
bool zone_counters_still(const struct snapshot_images *im, uint32_t z);

/* The same of a PCP (z * nr_cpus + cpu). */
bool pcp_counters_still(const struct snapshot_images *im, uint32_t i);

/* Whether an index of zone_image.list is a list of this kernel. */
bool list_exists(const struct snapshot_images *im, uint32_t list);

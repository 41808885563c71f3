/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grouped.h - rows in groups, as a tape stores its event tables.
 *
 * Rows with equal keys (kind, CPU, order, migratetype) are a group. Stored rows stand
 * group by group, in the order of time within each: values that hardly change stand
 * together, and a time or a frame number is a small difference from the one before it.
 * One number per row, in the order of time, says which group is next. That restores the
 * order exactly, also of rows with equal times.
 *
 * A grouped batch has at most GROUPED_ROWS_MOST rows, so a group's number has two bytes.
 * Each byte of the numbers and of the low halves of differences is a column of its own.
 *
 * All arrays have `nr` elements unless noted. A validity bitmap may be NULL: no nulls.
 * Whatever the stored bytes are, no function reads or writes beyond its arrays.
 */
#pragma once

#include "error.h"

#include <stddef.h>
#include <stdint.h>

enum {
	GROUPED_ROWS_MOST = 1 << 16,
	GROUPED_KEYS_MOST = 4,
	GROUPED_LOW_BYTES = 4, /* of a difference, each a column */
};

/* A column of the key: integers of one or two bytes. */
struct group_key {
	const void *values;
	int width; /* bytes of a value */
	const uint8_t *valid;
	size_t offset; /* of the first row, in both */
};

/*
 * Number the groups in the order of their first rows: the low and the high byte of each
 * row's group. -ENOMEM, or -EINVAL for more than GROUPED_ROWS_MOST rows.
 */
int group_rows(const struct group_key *keys, int nr_keys, size_t nr, uint8_t *low, uint8_t *high,
	       struct error *err);

/*
 * The place in time of each row in the order of groups, and whether it is the first of
 * its group. `nr` is at most GROUPED_ROWS_MOST. -ENOMEM.
 */
int group_order(const uint8_t *low, const uint8_t *high, size_t nr, uint16_t *place, uint8_t *first,
		struct error *err);

/* Values of `width` bytes (1, 2, 4 or 8) from the order of time to that of groups, and back. */
void group_values(int width, const void *from, const uint16_t *place, size_t nr, void *to);
void ungroup_values(int width, const void *from, const uint16_t *place, size_t nr, void *to);

/* Bitmaps likewise. The bits of `from` begin at `offset`; `to` is zeroed by the caller. */
void group_bits(const uint8_t *from, size_t offset, const uint16_t *place, size_t nr, uint8_t *to);
void ungroup_bits(const uint8_t *from, size_t offset, const uint16_t *place, size_t nr,
		  uint8_t *to);

/*
 * A column of differences: each value minus the one before it in its group. The first
 * value of a group counts from that of the batch's first row, and that row's from 0. A
 * null is no value: its difference is 0.
 */
struct differences {
	uint8_t *low[GROUPED_LOW_BYTES];
	uint32_t *high;
	const uint8_t *valid; /* in the order of groups, as stored */
};

/* `grouped` are the values in the order of groups. */
void group_differences(const uint64_t *grouped, const uint8_t *first, size_t nr,
		       const struct differences *to);

/* Values in the order of time; 0 beneath a null. */
void ungroup_differences(const struct differences *from, const uint16_t *place,
			 const uint8_t *first, size_t nr, uint64_t *values);

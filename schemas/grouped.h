/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grouped.h - rows in groups, as a tape stores its event tables.
 *
 * Rows with equal keys (kind, CPU, order, ...) are a group. Stored rows stand group by
 * group, in the order of time within each: values that hardly change stand together, and
 * a time or a frame number is a small difference from the one before it. The keys are
 * stored once for each group, with its number of rows. One number per row, in the order of
 * time, says which group is next. That restores the order exactly, also of rows with equal
 * times.
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
	GROUPED_KEYS_MOST = 16,
	GROUPED_KEY_BITS_MOST = 128, /* of all keys; nulls take one more bit than values */
	GROUPED_LOW_BYTES = 4,       /* of a difference, each a column */
};

/* A column of the key: integers of one, two or four bytes. */
struct group_key {
	const void *values;
	int width; /* bytes of a value */
	const uint8_t *valid;
	size_t offset; /* of the first row, in both */
};

/* The groups of a batch, numbered in the order of their first rows. */
struct groups {
	size_t nr; /* rows */
	size_t nr_groups;
	uint16_t *number; /* of each row's group, in the order of time */
	uint16_t *place;  /* in time, of each row in the order of groups */
	uint16_t *first;  /* in time, of the first row of each group; room for `nr` groups */
	uint32_t *rows;   /* of each group; room for `nr` */
};

/* Find the groups of `to->nr` rows. -ENOMEM, or -EINVAL for too many rows or bits of keys. */
int group_rows(const struct group_key *keys, int nr_keys, struct groups *to, struct error *err);

/* The two bytes of each number. */
void split_numbers(const uint16_t *number, size_t nr, uint8_t *low, uint8_t *high);

/*
 * The number of each row's group from its bytes, and the row's place in the order of groups:
 * `of->number` and `of->place`. `of` has `rows` of `nr_groups` groups, and `nr`, which is at
 * most GROUPED_ROWS_MOST. -ENOMEM, or -EINVAL unless the numbers give each group its rows.
 */
int order_rows(const uint8_t *low, const uint8_t *high, struct groups *of, struct error *err);

/* Keep the rows of groups with a `wanted` other than 0, in `of->number` and `of->place`; how many.
 */
size_t choose_rows(struct groups *of, const uint8_t *wanted);

/*
 * The places in time of all rows of groups with a `wanted` of 2, and of the rows that are not
 * `valid` of those with 1, in `to`, which has room for `nr`; how many.
 */
size_t find_rows(const uint16_t *number, const uint8_t *valid, size_t nr, const uint8_t *wanted,
		 uint16_t *to);

/* to[i] = from[at[i]], for values of `width` bytes (1, 2, 4 or 8). */
void pick_values(int width, const void *from, const uint16_t *at, size_t nr, void *to);

/* Bits likewise. Those of `from` are `nr_from`, from bit `offset` on. -ENOMEM. */
int pick_bits(const uint8_t *from, size_t offset, size_t nr_from, const uint16_t *at, size_t nr,
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

/* `values` are in the order of groups; those beneath nulls change. */
void group_differences(uint64_t *values, const uint32_t *rows, size_t nr_groups, size_t nr,
		       const struct differences *to);

/* The values in the order of groups; 0 beneath a null. The rows of all groups are `nr`. */
void ungroup_differences(const struct differences *from, const uint32_t *rows, size_t nr_groups,
			 size_t nr, uint64_t *values);

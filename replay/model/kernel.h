/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel.h - a kernel version is data.
 *
 * One row per kernel whose page allocator was read function by function. The model tests features
 * of the row, never a version: stable trees receive allocator rewrites (6.12.19 and 6.12.117 differ
 * as much as 6.8 and 6.15).
 *
 * The rows and the features stand in schemas/kernels.toml. kernel_rows.h and kernel_rows.c are made
 * of it: an enum for each feature, struct kernel, NR_KERNELS and the tables below.
 */
#pragma once

#include "error.h"
#include "kernel_rows.h"

#include <stdbool.h>
#include <stddef.h>

/* Whether the policy `fallback` takes a feature from the other row, and when it acts. */
enum fallback_part { FALLBACK_APART, FALLBACK_OF_REQUEST, FALLBACK_OF_FREE };

/* A feature in words, for `pagetape kernels`. */
struct feature {
	const char *name;
	const char *doc;
	size_t offset; /* of its uint8_t in struct kernel */
	/*
	 * Reclaim, compaction, or the requests that wait for them go by it: two rows that differ in
	 * it differ through the memory that is freed, not only in where pages lie.
	 */
	bool reclaim;
	uint8_t fallback;             /* enum fallback_part */
	const char *const *words;     /* by value, ends with NULL; none for a number */
	const char *const *constants; /* the names of the values, as in kernel_rows.h */
};

/* The first release of a row: it plays by the row, and so does each up to the next start. */
struct kernel_start {
	int release[3];
	const struct kernel *kernel;
};

extern const struct kernel kernels[];             /* oldest row first, ends with a NULL name */
extern const char *const kernel_names[];          /* of the same rows; ends with NULL */
extern const struct feature features[];           /* ends with a NULL name */
extern const struct kernel_start kernel_starts[]; /* oldest first, ends with a NULL kernel */

/* The row of that name, or -ENOENT with a list of the names. */
int kernel_find(const struct kernel **out, const char *name, struct error *err);

/* Whether two rows have the same rules; the same rules of reclaim and compaction. */
bool kernel_rules_same(const struct kernel *one, const struct kernel *other);
bool kernel_reclaim_same(const struct kernel *one, const struct kernel *other);

/*
 * The row for a kernel's release, such as "6.12.117+deb12-cloud-amd64". A release between two rows
 * gets the row whose features it has; a release newer than all rows gets the newest row. -ENOENT
 * for a string that is not a release, or a release older than every row.
 */
int kernel_for_release(const struct kernel **out, const char *release, struct error *err);

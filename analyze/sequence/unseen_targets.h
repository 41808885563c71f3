/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unseen_targets.h - target pages that compaction isolated without an event.
 *
 * A run of a task begins with mm_compaction_begin. When it has moved more pages than it was seen to
 * isolate targets for, it has isolated the others before: they count from the begin of its range.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct unseen_row {
	int32_t pid;
	bool begins;
	bool has_pfn;
	uint64_t pfn;     /* of a begin: its range */
	int64_t short_by; /* pages moved, less targets isolated */
};

struct unseen_pages {
	uint64_t pfn;
	int64_t pages; /* 0: none */
};

struct unseen_targets;

/* NULL without memory. */
struct unseen_targets *unseen_targets_new(void);
void unseen_targets_free(struct unseen_targets *t);

/* The pages that this row shows, in a range that is known. -ENOMEM. */
int unseen_targets_read(struct unseen_targets *t, const struct unseen_row *row,
			struct unseen_pages *out);

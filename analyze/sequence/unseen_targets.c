/* SPDX-License-Identifier: Apache-2.0 */
/* unseen_targets.c - the compaction runs of tasks, by pid. */
#include "unseen_targets.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

enum { FIRST_TASKS = 1 << 8 }; /* capacity; a power of two */

/* The run of a task. */
struct run {
	uint64_t pfn;
	int64_t short_by;
	int64_t most; /* largest short_by so far, at least 0 */
	int32_t pid;
	bool used;
	bool has_pfn;
};

struct unseen_targets {
	struct run *runs;
	size_t capacity;
	size_t nr;
};

struct unseen_targets *unseen_targets_new(void)
{
	struct unseen_targets *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->capacity = FIRST_TASKS;
	t->runs = calloc(t->capacity, sizeof(*t->runs));
	if (!t->runs) {
		free(t);
		return NULL;
	}
	return t;
}

void unseen_targets_free(struct unseen_targets *t)
{
	if (!t)
		return;
	free(t->runs);
	free(t);
}

static struct run *run_of(struct run *runs, size_t capacity, int32_t pid)
{
	size_t at = ((uint32_t)pid * 0x9e3779b1u) & (capacity - 1);

	while (runs[at].used && runs[at].pid != pid)
		at = (at + 1) & (capacity - 1);
	return &runs[at];
}

static int grow(struct unseen_targets *t)
{
	size_t capacity = 2 * t->capacity;
	struct run *runs = calloc(capacity, sizeof(*runs));

	if (!runs)
		return -ENOMEM;
	for (size_t i = 0; i < t->capacity; i++) {
		if (t->runs[i].used)
			*run_of(runs, capacity, t->runs[i].pid) = t->runs[i];
	}
	free(t->runs);
	t->runs = runs;
	t->capacity = capacity;
	return 0;
}

int unseen_targets_read(struct unseen_targets *t, const struct unseen_row *row,
			struct unseen_pages *out)
{
	struct run *run = run_of(t->runs, t->capacity, row->pid);
	int64_t new_pages;

	if (!run->used) {
		if (!row->begins)
			return 0;
		if (2 * (t->nr + 1) > t->capacity) {
			if (grow(t))
				return -ENOMEM;
			run = run_of(t->runs, t->capacity, row->pid);
		}
		t->nr++;
	}
	if (row->begins)
		*run = (struct run){
			.pfn = row->pfn, .pid = row->pid, .used = true, .has_pfn = row->has_pfn};
	run->short_by = (int64_t)((uint64_t)run->short_by + (uint64_t)row->short_by);
	if (run->short_by <= run->most)
		return 0;
	new_pages = run->short_by - run->most; /* most >= 0 */
	run->most = run->short_by;
	if (run->has_pfn)
		*out = (struct unseen_pages){run->pfn, new_pages};
	return 0;
}

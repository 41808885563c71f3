/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge.h - merges many sorted sources: a heap of (ts, source).
 *
 * Sources are numbered in the order of their CPUs, so equal times come out by CPU. The heap has
 * only times; the caller owns the records.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct merge_head {
	uint64_t ts;
	size_t source;
};

struct merge {
	size_t nr;
	struct merge_head *heap; /* room for every source; heap[0] is the next */
};

static inline bool merge_before(struct merge_head a, struct merge_head b)
{
	return a.ts < b.ts || (a.ts == b.ts && a.source < b.source);
}

static inline void merge_sift_down(struct merge *m, struct merge_head head)
{
	size_t at = 0;

	for (;;) {
		size_t child = 2 * at + 1;

		if (child >= m->nr)
			break;
		if (child + 1 < m->nr && merge_before(m->heap[child + 1], m->heap[child]))
			child++;
		if (!merge_before(m->heap[child], head))
			break;
		m->heap[at] = m->heap[child];
		at = child;
	}
	m->heap[at] = head;
}

/* Add a source, not in the heap, whose next record is at `ts`. */
static inline void merge_add(struct merge *m, size_t source, uint64_t ts)
{
	struct merge_head head = {ts, source};
	size_t at = m->nr++;

	while (at && merge_before(head, m->heap[(at - 1) / 2])) {
		m->heap[at] = m->heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	m->heap[at] = head;
}

/* The record of the next source was taken; its following record is at `ts`. */
static inline void merge_advance(struct merge *m, uint64_t ts)
{
	merge_sift_down(m, (struct merge_head){ts, m->heap[0].source});
}

/* The record of the next source was taken, and it has no other for now. */
static inline void merge_drop(struct merge *m)
{
	assert(m->nr);
	m->nr--;
	if (m->nr)
		merge_sift_down(m, m->heap[m->nr]);
}

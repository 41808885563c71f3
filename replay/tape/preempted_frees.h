/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preempted_frees.h - frees whose pages may have joined their PCP lists after other tasks' events.
 *
 * A task emits mm_page_free, prepares the page, and only then takes the lock of its CPU's PCP and
 * puts the page onto a list (__free_pages_prepare(), __free_frozen_pages(), 7.2; the same order
 * since 5.10). In between, a preemptible kernel may run another task, so the page may join the list
 * any number of events later, and on any CPU: at the latest before the task's next event outside
 * interrupts. The free of a batch is not affected: its mm_page_free_batched comes under the lock.
 *
 * The index has the frees with preemption on whose task's next event is not the next of its CPU
 * outside interrupts.
 * Most of these tasks were switched out after their pages had joined the list. The tape is read
 * once in advance, by departures.h.
 */
#pragma once

#include "error.h"
#include "model/model.h"

#include <stddef.h>
#include <stdint.h>

struct preempted_free {
	low_row row;      /* of the free */
	uint32_t resumed; /* of the task's next event */
};

struct preempted_frees {
	struct preempted_free *all; /* in the order of their rows, once all are read */
	size_t nr, room, next;
};

/* Add one. -ENOMEM. */
int preempted_frees_add(struct preempted_frees *p, struct arrays *arrays, low_row row,
			uint32_t resumed, struct error *err);
/* After the last one. */
void preempted_frees_sort(struct preempted_frees *p);

/*
 * The row of the next event of a task whose free at row `row` is in the index, or 0. The rows that
 * are asked for may not decrease.
 */
static inline uint32_t preempted_free_resumed(struct preempted_frees *p, uint64_t row)
{
	while (p->next < p->nr && p->all[p->next].row < row)
		p->next++;
	return p->next < p->nr && p->all[p->next].row == row ? p->all[p->next].resumed : 0;
}

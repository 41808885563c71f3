/* SPDX-License-Identifier: Apache-2.0 */
/*
 * departures.h - when pages left their PCP lists, if an event window does not show it.
 *
 * A task takes a page off a PCP list, releases the list's lock, prepares the page, and only then
 * emits mm_page_alloc (rmqueue_pcplist(), prep_new_page(), __alloc_frozen_pages_noprof(), 7.2).
 * When the lock is released, a preemptible kernel may run another task, so the event may come any
 * number of events later, on any CPU. But it is the task's next event outside interrupts and
 * switches to the task. So the page left its list between two rows: the task's previous event, and
 * the alloc. (The exception is a charge to a memory cgroup that reclaims: its events come between
 * the two.)
 *
 * The index has the allocs whose CPU ran another task's event before them, and the allocs and
 * drains whose page waited on its list for longer than an event window looks ahead. Beside it is
 * that of preempted_frees.h. The tape is read once in advance.
 */
#pragma once

#include "model/model.h"
#include "preempted_frees.h"
#include "tables.h"

struct departure {
	low_row row; /* of the alloc or drain */
	/*
	 * The rows before which the page may have left its list with its task being preempted
	 * afterwards: from `since`, the row after the task's previous event, to `until`, the last
	 * event of another task on its CPU, or `row` if it then changed its CPU. Both are `row` if
	 * it was not preempted.
	 */
	uint32_t since, until;
	uint32_t put;   /* row of the page's previous event, + 1; 0: it has none */
	uint32_t later; /* the page's next departure: its number, + 1; 0: none */
	frame_nr frame;
	uint32_t gfp_flags;
	int32_t pid;
	uint16_t cpu; /* where its task ran before */
	uint8_t kind; /* EVENT_KIND_ALLOC or EVENT_KIND_PCPU_DRAIN */
	uint8_t order, migratetype;
};

/* The latest event outside interrupts of a CPU, or of a task that has left its CPU. */
struct last_event {
	int32_t pid;
	uint32_t next; /* the row after it; 0: none */
	uint16_t cpu;
	bool is_free; /* a free in which the task may be preempted */
};

struct departures {
	struct arrays *arrays; /* of the model */
	struct departure *all; /* in the order of their rows */
	size_t nr, room;
	uint32_t *first;          /* [frame] number of the next departure, + 1; 0: none */
	struct last_event *cpus;  /* [cpu] only for reading */
	struct last_event *tasks; /* [hash of a pid] the same */
	int nr_cpus;
	uint32_t read; /* rows */
	struct preempted_frees frees;
};

/* Then arrays_error() of the model's. */
void departures_new(struct departures *d, const struct model *m);

/*
 * The next row of the table. `frame`: NO_FRAME if the row has no page; `put`: as in struct
 * departure; UINT32_MAX: unknown. -ENOMEM.
 */
int departures_read(struct departures *d, const struct event_columns *columns, size_t i,
		    frame_nr frame, uint32_t put, struct error *err);
/* After the last row. -ENOMEM. */
int departures_done(struct departures *d, uint32_t nr_frames, struct error *err);

/* The departure whose alloc or drain is at row `row`, or NULL. */
static inline const struct departure *departure_at(const struct departures *d, frame_nr frame,
						   uint64_t row)
{
	uint32_t next = d->first ? d->first[frame] : 0;

	while (next && d->all[next - 1].row < row)
		next = d->all[next - 1].later;
	return next && d->all[next - 1].row == row ? &d->all[next - 1] : NULL;
}

/*
 * The departure that ends a page's stay on a list at row `row`, or NULL. The rows that are asked
 * for may not decrease.
 */
static inline const struct departure *departure_of(struct departures *d, frame_nr frame,
						   uint64_t row)
{
	uint32_t *first;

	if (!d->first)
		return NULL;
	first = &d->first[frame];
	while (*first && d->all[*first - 1].row <= row)
		*first = d->all[*first - 1].later;
	return *first && d->all[*first - 1].put <= row + 1 ? &d->all[*first - 1] : NULL;
}

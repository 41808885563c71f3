// SPDX-License-Identifier: Apache-2.0
#include "departures.h"

#include "event_window.h"
#include "model/memory.h"

#include <errno.h>

enum {
	TASK_BITS = 16,
	NO_PID = -1,
};

void departures_new(struct departures *d, const struct model *m)
{
	*d = (struct departures){.arrays = m->arrays, .nr_cpus = m->nr_cpus};
	d->cpus = arrays_new(d->arrays, (size_t)m->nr_cpus, sizeof(*d->cpus));
	d->tasks = arrays_new(d->arrays, 1u << TASK_BITS, sizeof(*d->tasks));
}

/* Tasks that share a slot forget each other's events. */
static struct last_event *task_of(const struct departures *d, int32_t pid)
{
	return &d->tasks[(uint32_t)pid * 2654435761u >> (32 - TASK_BITS)];
}

/*
 * A task's event outside interrupts, at row to->row. If its CPU ran another task before, fill in
 * the rows between which the task was preempted, and its CPU before. Returns whether the task's
 * previous event is a free, and another task or CPU came between: then it is before row to->since.
 */
static bool resume(struct departures *d, int cpu, int32_t pid, bool is_free, struct departure *to)
{
	struct last_event *here = &d->cpus[cpu], *task = task_of(d, here->pid);
	const struct last_event before = *here;
	bool after_free = false;

	*here = (struct last_event){pid, to->row + 1, (uint16_t)cpu, is_free};
	if (before.next && before.pid == pid)
		return false;
	if (before.next && task->pid == before.pid && task->cpu == cpu) {
		task->next = before.next;
		task->is_free = before.is_free;
	}
	task = task_of(d, pid);
	to->since = before.next ? 0 : to->row;
	to->until = before.next ? before.next - 1 : to->row;
	if (task->next && task->pid == pid) {
		struct last_event *there = &d->cpus[task->cpu];

		to->since = task->next;
		after_free = task->is_free;
		if (task->cpu != cpu) {
			to->until = to->row;
			to->cpu = task->cpu;
		}
		/* The other CPU has run no task since. */
		if (there->pid == pid && there != here) {
			to->since = there->next;
			after_free = there->is_free;
			there->pid = NO_PID;
		}
	}
	*task = (struct last_event){pid, to->row + 1, (uint16_t)cpu, is_free};
	return after_free;
}

static int add(struct departures *d, const struct departure *departure, struct error *err)
{
	if (grow(d->arrays, &d->all, &d->room, d->nr + 1, sizeof(*d->all), err))
		return -ENOMEM;
	d->all[d->nr++] = *departure;
	return 0;
}

/*
 * Whether a task frees a page of the one that ran before it on the CPU, before it returns from the
 * switch, with preemption off (finish_task_switch(), 7.3). The free says nothing on what the task
 * was preempted in.
 */
static bool in_switch(const struct departures *d, const struct event_columns *c, size_t i)
{
	const struct last_event *here = &d->cpus[c->cpu[i]];

	return c->kind[i] == EVENT_KIND_FREE && c->flags[i] & CONTEXT_PREEMPT_OFF && here->next &&
	       here->pid != c->pid[i];
}

int departures_read(struct departures *d, const struct event_columns *c, size_t i, frame_nr frame,
		    uint32_t put, struct error *err)
{
	enum {
		INTERRUPT = CONTEXT_SOFTIRQ | CONTEXT_HARDIRQ | CONTEXT_NMI,
		NOT_PREEMPTED = CONTEXT_PREEMPT_OFF | CONTEXT_IRQS_OFF,
	};
	uint32_t row = d->read++;
	int kind = c->kind[i], ret;
	struct departure departure = {
		.row = row,
		.since = row,
		.until = row,
		.put = put,
		.frame = frame,
		.cpu = c->cpu[i],
		.kind = (uint8_t)kind,
	};

	/* The idle tasks of all CPUs have the pid 0. */
	if (!(c->flags[i] & INTERRUPT) && c->pid[i] > 0 && c->cpu[i] < d->nr_cpus &&
	    !in_switch(d, c, i) &&
	    resume(d, c->cpu[i], c->pid[i],
		   kind == EVENT_KIND_FREE && !(c->flags[i] & NOT_PREEMPTED), &departure)) {
		ret = preempted_frees_add(&d->frees, d->arrays, departure.since - 1, row, err);
		if (ret)
			return ret;
	}
	if (frame == NO_FRAME || put == UINT32_MAX ||
	    (kind != EVENT_KIND_ALLOC && kind != EVENT_KIND_PCPU_DRAIN))
		return 0;
	if (kind == EVENT_KIND_PCPU_DRAIN || departure.since > departure.until)
		departure.since = departure.until = row;
	if (departure.since == row && row - put < WINDOW_AHEAD)
		return 0;
	departure.pid = c->pid[i];
	if (is_valid(c->gfp_flags_valid, i))
		departure.gfp_flags = c->gfp_flags[i];
	if (is_valid(c->page_order_valid, i))
		departure.order = c->page_order[i];
	if (is_valid(c->migratetype_valid, i) && c->migratetype[i] < NR_MIGRATETYPE)
		departure.migratetype = c->migratetype[i];
	return add(d, &departure, err);
}

int departures_done(struct departures *d, uint32_t nr_frames, struct error *err)
{
	arrays_drop(d->arrays, d->cpus);
	arrays_drop(d->arrays, d->tasks);
	d->cpus = d->tasks = NULL;
	preempted_frees_sort(&d->frees);
	if (!d->nr || d->first)
		return 0;
	d->first = arrays_map(d->arrays, nr_frames, sizeof(*d->first));
	if (!d->first)
		return arrays_error(d->arrays, err);
	for (size_t i = d->nr; i--;) {
		d->all[i].later = d->first[d->all[i].frame];
		d->first[d->all[i].frame] = (uint32_t)i + 1;
	}
	return 0;
}

// SPDX-License-Identifier: Apache-2.0
/*
 * The moments between which inferred activity happened: after the last event that proves the old
 * state, and before the row at which the tape shows the new one.
 */
#include "predict.h"

#include "model/memory.h"

#include <stdlib.h>

bool moments_new(struct validate *v)
{
	const struct model *m = v->m;

	v->pushed = memory_new(m->nr_frames * sizeof(*v->pushed));
	v->named = memory_new(m->nr_frames * sizeof(*v->named));
	v->drained = calloc((size_t)m->nr_zones * (size_t)m->nr_cpus, sizeof(*v->drained));
	return v->pushed && v->named && v->drained;
}

void moments_free(struct validate *v)
{
	if (v->pushed)
		memory_free(v->pushed, v->m->nr_frames * sizeof(*v->pushed));
	if (v->named)
		memory_free(v->named, v->m->nr_frames * sizeof(*v->named));
	free(v->drained);
}

/* The row that `low`, its low 32 bits, names: up to the current one. */
static uint64_t proved(const struct validate *v, uint32_t low)
{
	uint64_t running =
		window_at(&v->window, v->window.done - (v->window.done == v->window.arrived))->at;
	uint32_t back = (uint32_t)running - low;

	return back > INT32_MAX ? running : running - back;
}

void note_named(struct validate *v, uint32_t frame, uint64_t row)
{
	uint32_t *named = &v->named[frame];

	if (!*named || (int32_t)((uint32_t)row - *named) > 0)
		*named = (uint32_t)row ? (uint32_t)row : 1;
}

void note_event(struct validate *v, const struct window_event *event)
{
	uint32_t pages = event->run ? event->run : 1;

	for (uint32_t i = 0; i < pages; i++)
		note_named(v, event->frame - i, event->at + 1);
}

void note_drained(struct validate *v, const struct pcp *pcp)
{
	v->drained[pcp->number] = window_at(&v->window, v->window.done)->at + 1;
}

/* The lowest row of a run that a window can begin with. */
static uint64_t first_moment(const struct validate *v)
{
	return v->run.load.first ? v->run.load.first : 1;
}

uint64_t since_entry(const struct validate *v, uint32_t entry)
{
	const struct pcp *pcp = &v->m->pcps[v->m->frames[entry].list];
	uint64_t since = first_moment(v), named = v->named[entry];

	if (named && (named = proved(v, (uint32_t)named)) > since)
		since = named;
	return v->drained[pcp->number] > since ? v->drained[pcp->number] : since;
}

uint64_t since_block(const struct validate *v, uint32_t head, int order)
{
	const struct model *m = v->m;
	uint32_t first = head & ~((2u << order) - 1), end = first + (2u << order);
	uint64_t since = first_moment(v);

	if (order == m->max_order) {
		first = head;
		end = head + (1u << order);
	}
	for (uint32_t frame = first; frame < end && frame < m->nr_frames; frame++) {
		uint64_t named = v->named[frame] ? proved(v, v->named[frame]) : 0;

		since = named > since ? named : since;
	}
	return since;
}

// SPDX-License-Identifier: Apache-2.0
/*
 * The moments between which inferred activity happened: after the last event that proves the old
 * state, and before the row at which the tape shows the new one.
 */
#include "score.h"

/* The row that `low`, its low 32 bits, names: up to the current one. */
static uint64_t proved(const struct score *s, uint32_t low)
{
	uint64_t running =
		window_at(s->window, s->window->done - (s->window->done == s->window->arrived))->at;
	uint32_t back = (uint32_t)running - low;

	return back > INT32_MAX ? running : running - back;
}

void note_named(struct score *s, frame_nr frame, uint64_t row)
{
	low_row *named = &s->named[frame];

	if (!*named || (int32_t)((uint32_t)row - *named) > 0)
		*named = (uint32_t)row ? (uint32_t)row : 1;
}

uint64_t named_at(const struct score *s, frame_nr frame)
{
	return s->named[frame] ? proved(s, s->named[frame]) - 1 : UINT64_MAX;
}

void note_event(struct score *s, const struct window_event *event)
{
	uint32_t pages = event->run ? event->run : 1;

	for (uint32_t i = 0; i < pages; i++)
		note_named(s, event->frame - i, event->at + 1);
}

void note_drained(struct score *s, const struct pcp *pcp)
{
	s->drained[pcp->number] = window_at(s->window, s->window->done)->at + 1;
}

/* The lowest row of a run that a window can begin with. */
static uint64_t first_moment(const struct score *s)
{
	return s->run->load.first ? s->run->load.first : 1;
}

uint64_t since_entry(const struct score *s, frame_nr entry)
{
	const struct pcp *pcp = &s->m->pcps[s->m->frames[entry].list];
	uint64_t since = first_moment(s), named = s->named[entry];

	if (named && (named = proved(s, (uint32_t)named)) > since)
		since = named;
	return s->drained[pcp->number] > since ? s->drained[pcp->number] : since;
}

uint64_t since_block(const struct score *s, frame_nr head, int order)
{
	const struct model *m = s->m;
	uint32_t first = head & ~((2u << order) - 1), end = first + (2u << order);
	uint64_t since = first_moment(s);

	if (order == m->max_order) {
		first = head;
		end = head + (1u << order);
	}
	for (frame_nr frame = first; frame < end && frame < m->nr_frames; frame++) {
		uint64_t named = s->named[frame] ? proved(s, s->named[frame]) : 0;

		since = named > since ? named : since;
	}
	return since;
}

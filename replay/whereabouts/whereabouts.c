// SPDX-License-Identifier: Apache-2.0
/* The memory of the whereabouts. */
#include "whereabouts.h"

#include "model/memory.h"

void whereabouts_new(struct whereabouts *where, const struct model *m,
		     const struct event_window *window)
{
	size_t cpus = (size_t)m->nr_cpus;

	where->m = m;
	where->window = window;
	where->holders = arrays_new(m->arrays, cpus, sizeof(*where->holders));
	where->remotes = arrays_new(m->arrays, cpus, sizeof(*where->remotes));
	where->late_frees.all =
		arrays_new(m->arrays, MAX_LATE_FREES, sizeof(*where->late_frees.all));
	where->late_frees.next = UINT64_MAX;
	where->depths = arrays_new(m->arrays, cpus, sizeof(*where->depths));
	where->ran = arrays_new(m->arrays, cpus, sizeof(*where->ran));
	where->pushed = arrays_map(m->arrays, m->nr_frames, sizeof(*where->pushed));
	where->search_left = SEARCH_MOST;
}

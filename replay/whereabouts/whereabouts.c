// SPDX-License-Identifier: Apache-2.0
/* The memory of the whereabouts. */
#include "whereabouts.h"

#include "model/memory.h"

#include <errno.h>
#include <stdlib.h>

int whereabouts_new(struct whereabouts *where, const struct model *m,
		    const struct event_window *window, struct error *err)
{
	size_t cpus = (size_t)m->nr_cpus;

	where->m = m;
	where->window = window;
	where->holders = calloc(cpus, sizeof(*where->holders));
	where->remotes = calloc(cpus, sizeof(*where->remotes));
	where->late_frees.all = calloc(MAX_LATE_FREES, sizeof(*where->late_frees.all));
	where->late_frees.next = UINT64_MAX;
	where->depths = calloc(cpus, sizeof(*where->depths));
	where->ran = calloc(cpus, sizeof(*where->ran));
	where->pushed = memory_new(m->nr_frames * sizeof(*where->pushed));
	where->search_left = SEARCH_MOST;
	if (!where->holders || !where->remotes || !where->late_frees.all || !where->depths ||
	    !where->ran || !where->pushed)
		return fail(err, ENOMEM, "no memory for %u page frames", m->nr_frames);
	return 0;
}

void whereabouts_free(struct whereabouts *where)
{
	next_events_free(&where->next_events);
	if (where->pushed)
		memory_free(where->pushed, where->m->nr_frames * sizeof(*where->pushed));
	free(where->holders);
	free(where->remotes);
	free(where->late_frees.all);
	free(where->depths);
	free(where->ran);
}

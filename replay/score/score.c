// SPDX-License-Identifier: Apache-2.0
/* The memory of the findings. */
#include "score.h"

#include "model/memory.h"

#include <errno.h>

int score_new(struct score *s, struct run *run, const struct event_window *window,
	      const struct validate_observer *observer, struct error *err)
{
	size_t pcps = (size_t)run->model->nr_zones * (size_t)run->model->nr_cpus;

	s->run = run;
	s->m = run->model;
	s->window = window;
	s->observer = observer;
	s->pending_misses =
		arrays_new(s->m->arrays, MAX_PENDING_MISSES, sizeof(*s->pending_misses));
	s->open_misses = arrays_new(s->m->arrays, pcps, sizeof(*s->open_misses));
	s->named = arrays_map(s->m->arrays, s->m->nr_frames, sizeof(*s->named));
	s->drained = arrays_new(s->m->arrays, pcps, sizeof(*s->drained));
	recorded_use_new(&s->recorded_use, s->m);
	if (arrays_error(s->m->arrays, err))
		return -ENOMEM;
	for (int i = 0; i < MAX_PENDING_MISSES - 1; i++)
		s->pending_misses[i].next = &s->pending_misses[i + 1];
	s->free_pending_miss = s->pending_misses;
	return guesses_new(s, err) ?: accuracy_new(&s->accuracy, run, err);
}

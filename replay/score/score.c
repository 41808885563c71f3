// SPDX-License-Identifier: Apache-2.0
/* The memory of the findings. */
#include "score.h"

#include <errno.h>
#include <stdlib.h>

int score_new(struct score *s, struct run *run, const struct event_window *window,
	      const struct validate_observer *observer, struct error *err)
{
	int ret;

	s->run = run;
	s->m = run->model;
	s->window = window;
	s->observer = observer;
	s->pending_misses = calloc(MAX_PENDING_MISSES, sizeof(*s->pending_misses));
	s->open_misses =
		calloc((size_t)s->m->nr_zones * (size_t)s->m->nr_cpus, sizeof(*s->open_misses));
	if (!moments_new(s) || !s->pending_misses || !s->open_misses)
		return fail(err, ENOMEM, "no memory for %u page frames", s->m->nr_frames);
	for (int i = 0; i < MAX_PENDING_MISSES - 1; i++)
		s->pending_misses[i].next = &s->pending_misses[i + 1];
	s->free_pending_miss = s->pending_misses;
	ret = accuracy_new(&s->accuracy, run, err);
	ret = ret ?: guesses_new(s, err);
	return ret ? ret : recorded_use_new(&s->recorded_use, s->m, err);
}

void score_free(struct score *s)
{
	page_contents_free(&s->contents);
	moments_free(s);
	accuracy_free(&s->accuracy);
	recorded_use_free(&s->recorded_use);
	free(s->guesses);
	free(s->pending_misses);
	free(s->open_misses);
}

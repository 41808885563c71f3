/* SPDX-License-Identifier: Apache-2.0 */
/* lock_runs.c - runs of events of a CPU under one hold of the zone lock. */
#include "sequence.h"

#include "batch.h"

#include <errno.h>
#include <stdlib.h>

enum { NO_RUN = RUN_TRACE + 1, CPUS = 1 << 16 };

/* The run of a CPU that its last event belongs to. */
struct run {
	uint64_t from_ts;
	uint64_t until_ts;
	uint64_t blocks; /* 0: there is none */
	uint8_t what;
};

struct lock_runs {
	struct sequence_kinds kinds;
	size_t ending; /* next CPU of lock_runs_end() */
	struct run runs[CPUS];
};

int lock_runs_new(struct lock_runs **out, struct sequence_kinds kinds)
{
	struct lock_runs *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->kinds = kinds;
	*out = r;
	return 0;
}

void lock_runs_free(struct lock_runs *r)
{
	free(r);
}

static int what_of(const struct sequence_kinds *k, const struct sequence_events *e, uint16_t i)
{
	if (e->kind[i] == k->pcpu_drain)
		return RUN_GIVE;
	if (e->kind[i] == k->free_batched)
		return RUN_TRACE;
	if (e->kind[i] == k->alloc_zone_locked && VALUE_OR(e, percpu_refill, i, false))
		return RUN_TAKE;
	return NO_RUN;
}

/* The row of a run that has ended; whether there is one. */
static bool put_row(struct lock_run_rows *rows, size_t at, const struct run *run, uint16_t cpu)
{
	if (!run->blocks || (run->what == RUN_TRACE && run->blocks == 1))
		return false;
	rows->what[at] = run->what;
	rows->cpu[at] = cpu;
	rows->blocks[at] = run->blocks;
	rows->from_ts[at] = run->from_ts;
	rows->until_ts[at] = run->until_ts;
	return true;
}

long lock_runs_read(struct lock_runs *r, const struct sequence_events *e,
		    struct lock_run_rows *rows)
{
	size_t nr = 0;

	for (size_t i = 0; i < e->nr; i++) {
		uint16_t cpu = e->cpu[e->group[i]];
		struct run *run = &r->runs[cpu];
		int what;

		if (!is_in_span(&r->kinds, e->ts[i]))
			continue;
		what = what_of(&r->kinds, e, e->group[i]);
		if (what != NO_RUN && run->blocks && run->what == what) {
			if (what == RUN_TRACE && run->blocks == 2) { /* a pair of its own */
				nr += put_row(rows, nr, run, cpu);
				run->from_ts = run->until_ts;
				run->blocks = 1;
			}
			run->blocks++;
			run->until_ts = e->ts[i];
			continue;
		}
		nr += put_row(rows, nr, run, cpu);
		*run = (struct run){e->ts[i], e->ts[i], what != NO_RUN, (uint8_t)what};
	}
	return (long)nr;
}

long lock_runs_end(struct lock_runs *r, size_t nr, struct lock_run_rows *rows)
{
	size_t found = 0;

	for (; r->ending < CPUS && found < nr; r->ending++)
		found += put_row(rows, found, &r->runs[r->ending], (uint16_t)r->ending);
	return (long)found;
}

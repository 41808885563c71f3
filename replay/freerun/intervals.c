// SPDX-License-Identifier: Apache-2.0
/* Rows of counters, one per interval of a free run. */
#include "model/pcp.h"
#include "model/watermark.h"
#include "replay_internal.h"

#include <string.h>

/*
 * Most intervals of a run without a row of `event`, but with ticks: 4 h at 1 s. The times of a
 * tape may be wild; further such intervals count as idle.
 */
enum { QUIET_MOST = 1 << 14 };

static void write_counter(struct replay *r, const struct pcp *pcp, uint64_t ts)
{
	const struct zone *zone = &r->model->zones[pcp->zone];
	struct counter_columns *columns;
	size_t i = output_row(r->series[SERIES_COUNTER], &columns);

	columns->ts[i] = ts;
	columns->cpu[i] = pcp->cpu;
	columns->node[i] = zone->node;
	columns->zone[i] = zone->type;
#define WRITE(name) columns->name[i] = pcp->counters.name;
	FOR_EACH_COUNTER(WRITE)
#undef WRITE
#define VALID(name) set_valid(columns->name##_valid, i);
	FOR_EACH_NEWER_COUNTER(VALID)
	if (r->model->reclaim_ops) {
		FOR_EACH_FEEDBACK_COUNTER(VALID)
	}
#undef VALID
}

void intervals_end(struct replay *r, uint64_t ts)
{
	static const struct counters none;
	struct model *m = r->model;

	for (int i = 0; i < m->nr_zones; i++)
		count_boosted_time(m, &m->zones[i], r->interval_end);
	for (int i = 0; i < m->nr_zones * m->nr_cpus; i++) {
		struct pcp *pcp = &m->pcps[i];

		if (!memcmp(&pcp->counters, &none, sizeof(none)))
			continue;
		write_counter(r, pcp, r->interval_end - r->run.config.interval_ns);
#define ADD(name) r->totals.counters.name += pcp->counters.name;
		FOR_EACH_COUNTER(ADD)
#undef ADD
		pcp->counters = none;
	}
	pcp_occupancies_write(&r->occupancies, m, ts, r->series[SERIES_OCCUPANCY]);
	if (r->zone_locks)
		zone_lock_queues_write(r->zone_locks, m,
				       r->interval_end - r->run.config.interval_ns,
				       r->series[SERIES_LOCK], r->series[SERIES_LOCK_WAIT]);
	fragmentation_sample_write(m, r->samples, ts);
}

/* Run the vmstat worker of every CPU with work. Returns whether a CPU still has work. */
static bool tick(struct replay *r)
{
	struct model *m = r->model;
	bool busy = false;

	for (int cpu = 0; cpu < m->nr_cpus; cpu++) {
		if (!r->busy[cpu])
			continue;
		m->now = (struct moment){.ts = r->next_tick, .cpu = (uint16_t)cpu};
		r->busy[cpu] = pcp_tick(m, cpu);
		busy |= r->busy[cpu];
	}
	return busy;
}

/* Start the clocks at `ts`, the time of the first request. */
static void start(struct replay *r, uint64_t ts)
{
	uint64_t interval = r->run.config.interval_ns;
	uint64_t phase = ts < interval ? 0 : r->run.config.interval_ts % interval;

	r->next_tick = ts + r->tick_ns;
	r->next_look = ts;
	pcp_occupancies_start(&r->occupancies, ts);
	r->interval_end = ts - (ts - phase) % interval + interval;
	fragmentation_sample_write(r->model, r->samples, ts);
	for (int i = 0; i < r->model->nr_zones; i++)
		r->model->zones[i].boosted_at = ts;
}

void intervals_advance(struct replay *r, uint64_t ts)
{
	uint64_t interval = r->run.config.interval_ns;
	bool busy = true, quiet = false;

	if (!r->next_tick)
		start(r, ts);
	while (ts >= r->next_tick || ts >= r->interval_end) {
		/* Skip the idle time while no CPU has work. */
		if (r->next_tick < r->interval_end) {
			pcp_occupancies_look(&r->occupancies, r->model, r->next_tick);
			busy = !r->recorded_ticks && tick(r);
			if (!busy)
				r->next_tick += (ts - r->next_tick) / r->tick_ns * r->tick_ns;
			r->next_tick += r->tick_ns;
		} else {
			intervals_end(r, r->interval_end);
			r->quiet_intervals += quiet;
			quiet = true;
			if (!busy || r->quiet_intervals > QUIET_MOST)
				r->interval_end += (ts - r->interval_end) / interval * interval;
			r->interval_end += interval;
		}
	}
	if (ts >= r->next_look) {
		pcp_occupancies_look(&r->occupancies, r->model, ts);
		r->next_look = ts + OCCUPANCY_PERIOD_NS;
	}
}

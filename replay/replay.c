// SPDX-License-Identifier: Apache-2.0
#include "replay.h"

#include "anomalies.h"
#include "buddy.h"
#include "clock.h"
#include "memory.h"
#include "pcp.h"
#include "policy_stack.h"
#include "requests.h"
#include "snapshot.h"
#include "start.h"
#include "tally.h"
#include "zone.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	EVENT_ROWS = 1 << 16, /* of a batch of output */
	OTHER_ROWS = 1 << 14,
	EARLY_MAX = 256, /* allocs that run early and wait for their event */
};
#define TICK_NS         1000000000ull /* vm.stat_interval */
#define MIN_INTERVAL_NS 1000000ull

/*
 * map[frame] for the recorded pfn of that frame: where the model put it, as frame + 1,
 * or one of these.
 */
enum {
	MAP_UNSEEN = 0, /* no event yet */
	MAP_UNSERVED = UINT32_MAX - 1,
	MAP_FREED = UINT32_MAX,
};

struct replay {
	struct replay_config config;
	struct policy_stack *policies;
	struct start start;
	struct model *model; /* that of start, once started */
	uint32_t *map;
	bool started, finished;

	struct requests requests;

	bool *busy;                /* [cpu] its next tick may find something to do */
	uint64_t at;               /* row of `event` that runs */
	uint64_t early[EARLY_MAX]; /* rows of allocs that have run before they were told */
	int nr_early;
	uint64_t next_tick, interval_end;

	struct events events;
	struct tally tally;
	struct anomalies anomalies;
	struct output *counter, *event_count, *end[NR_END];
	struct totals totals;
};

int replay_new(struct replay **out, const struct replay_config *config, struct error *err)
{
	struct replay *r = calloc(1, sizeof(*r));
	int ret;

	*out = NULL;
	if (!r)
		return fail(err, ENOMEM, "no memory for a replay");
	r->config = *config;
	if (!r->config.recorded)
		r->config.recorded = config->kernel;
	for (size_t s = 0; s < config->nr_spans; s++)
		if (config->spans[s].first > config->spans[s].end ||
		    (s && config->spans[s].first < config->spans[s - 1].end)) {
			ret = fail(err, EINVAL, "span %zu, %llu to %llu, is not in order", s,
				   (unsigned long long)config->spans[s].first,
				   (unsigned long long)config->spans[s].end);
			goto failed;
		}
	if (config->interval_ns < MIN_INTERVAL_NS || config->interval_ns >> 62) {
		ret = fail(err, EINVAL, "an interval of %llu ns",
			   (unsigned long long)config->interval_ns);
		goto failed;
	}
	ret = policy_stack_new(&r->policies, err);
	for (int i = 0; i < config->nr_policies && !ret; i++)
		ret = policy_stack_add(r->policies, config->policies[i], err);
	if (ret)
		goto failed;
	r->anomalies.nr = r->totals.anomalies;
	r->start = (struct start){
		.kernel = *config->kernel,
		.recorded = r->config.recorded,
		.machine = config->machine,
		.policies = r->policies,
		.first = config->nr_spans ? config->spans[0].first : 0,
	};
	start_choose(&r->start);
	ret = output_new(&r->events.output, &event_table, EVENT_ROWS, err);
	if (!ret)
		ret = output_new(&r->anomalies.output, &anomaly_table, OTHER_ROWS, err);
	if (!ret)
		ret = output_new(&r->counter, &counter_table, OTHER_ROWS, err);
	if (!ret)
		ret = output_new(&r->event_count, &event_count_table, OTHER_ROWS, err);
	for (int i = 0; i < NR_END && !ret; i++)
		ret = output_new(&r->end[i], end_tables[i], OTHER_ROWS, err);
	if (ret)
		goto failed;
	*out = r;
	return 0;
failed:
	replay_free(r);
	return ret;
}

void replay_free(struct replay *r)
{
	if (!r)
		return;
	if (r->model)
		memory_free(r->map, r->model->nr_frames * sizeof(*r->map));
	start_free(&r->start);
	policy_stack_free(r->policies);
	output_free(r->events.output);
	output_free(r->anomalies.output);
	output_free(r->counter);
	output_free(r->event_count);
	tally_free(&r->tally);
	for (int i = 0; i < NR_END; i++)
		output_free(r->end[i]);
	requests_free(&r->requests);
	free(r->busy);
	free(r);
}

int replay_load(struct replay *r, const char *name, const struct ArrowSchema *schema,
		const struct ArrowArray *array, struct error *err)
{
	if (r->started)
		return fail(err, EINVAL, "rows of %s after the first event", name);
	return start_load(&r->start, name, schema, array, err);
}

static int start(struct replay *r, struct error *err)
{
	int ret;

	if (r->started)
		return 0;
	ret = start_complete(&r->start, err);
	if (ret)
		return ret;
	r->model = r->start.model;
	r->map = memory_new(r->model->nr_frames * sizeof(*r->map));
	r->busy = calloc((size_t)r->model->nr_cpus, sizeof(*r->busy));
	if (!r->map || !r->busy)
		return fail(err, ENOMEM, "no memory for a map of %u page frames",
			    r->model->nr_frames);
	ret = requests_init(&r->requests, r->model, r->anomalies, err);
	if (ret)
		return ret;
	if (r->config.counted) {
		ret = tally_init(&r->tally, r->model->nr_cpus, err);
		if (ret)
			return ret;
		r->events.tally = &r->tally;
	}
	for (int cpu = 0; cpu < r->model->nr_cpus; cpu++)
		r->busy[cpu] = true;
	r->model->events = r->config.events ? &r->events : NULL;
	r->started = true;
	return 0;
}

/* A request, of a page of the model, that cannot be as the record says. */
__attribute__((cold)) static void report_anomaly(struct replay *r, const struct waiting *e,
						 int kind, int action)
{
	anomalies_add(&r->anomalies, &(struct anomaly){
					     .at = r->at,
					     .moment = &e->moment,
					     .pfn = (int64_t)frame_pfn(r->model, e->frame),
					     .order = e->order,
					     .kind = kind,
					     .action = action,
				     });
}

static void write_counter(struct replay *r, const struct pcp *pcp, uint64_t ts)
{
	const struct zone *zone = &r->model->zones[pcp->zone];
	struct counter_columns *columns;
	size_t i = output_row(r->counter, &columns);

	if (!columns)
		return;
	columns->ts[i] = ts;
	columns->cpu[i] = pcp->cpu;
	columns->node[i] = zone->node;
	columns->zone[i] = zone->type;
#define WRITE(name) columns->name[i] = pcp->counters.name;
	FOR_EACH_COUNTER(WRITE)
#undef WRITE
}

/* The interval ends: its counters become rows and totals. */
static void end_interval(struct replay *r)
{
	static const struct counters none;
	struct model *m = r->model;

	for (int i = 0; i < m->nr_zones * m->nr_cpus; i++) {
		struct pcp *pcp = &m->pcps[i];

		if (!memcmp(&pcp->counters, &none, sizeof(none)))
			continue;
		write_counter(r, pcp, r->interval_end - r->config.interval_ns);
#define ADD(name) r->totals.counters.name += pcp->counters.name;
		FOR_EACH_COUNTER(ADD)
#undef ADD
		pcp->counters = none;
	}
}

/* Run the vmstat worker of every CPU that has something to do; whether one still has. */
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

/* Let what is due before `ts` happen: ticks and ends of intervals. */
static void advance(struct replay *r, uint64_t ts)
{
	uint64_t interval = r->config.interval_ns;
	bool busy = true;

	if (!r->next_tick) {
		r->next_tick = ts + TICK_NS;
		r->interval_end = ts - ts % interval + interval;
	}
	while (ts >= r->next_tick || ts >= r->interval_end) {
		/* While nobody is busy nothing happens: step over the idle time. */
		if (r->next_tick < r->interval_end) {
			busy = !r->start.asides.ticks && tick(r);
			if (!busy)
				r->next_tick += (ts - r->next_tick) / TICK_NS * TICK_NS;
			r->next_tick += TICK_NS;
		} else {
			end_interval(r);
			if (!busy)
				r->interval_end += (ts - r->interval_end) / interval * interval;
			r->interval_end += interval;
		}
	}
}

static bool map_has_page(uint32_t place)
{
	return place != MAP_UNSEEN && place < MAP_UNSERVED;
}

static void map_set(struct replay *r, uint32_t frame, int order, uint32_t place, bool served)
{
	for (uint32_t i = 0; i < 1u << order; i++)
		r->map[frame + i] = served ? place + i : place;
}

/* Which rows a free leaves in the model's own events. */
enum { ROW_FREE = 1, ROW_FREE_BATCHED = 2 };

static void free_block(struct replay *r, uint32_t head, int order, int rows)
{
	struct model *m = r->model;
	int64_t pfn = (int64_t)frame_pfn(m, head);

	if (rows & ROW_FREE)
		events_free(m->events, &m->now, pfn, order);
	if (rows & ROW_FREE_BATCHED)
		events_free_batched(m->events, &m->now, pfn);
	zone_free(m, head, order);
}

/* Free one recorded page wherever the model has it; false if it has it nowhere. */
static bool free_page(struct replay *r, uint32_t frame, int rows)
{
	struct model *m = r->model;
	uint32_t place = r->map[frame];

	r->map[frame] = MAP_FREED;
	if (map_has_page(place)) {
		block_carve(m, place - 1, 0);
		free_block(r, place - 1, 0, rows);
		return true;
	}
	if (place == MAP_UNSEEN && m->frames[frame].state == FRAME_OLD) {
		free_block(r, frame, 0, rows);
		return true;
	}
	return false;
}

static bool all_old(const struct replay *r, uint32_t frame, int order)
{
	for (uint32_t i = 0; i < 1u << order; i++)
		if (r->map[frame + i] != MAP_UNSEEN ||
		    r->model->frames[frame + i].state != FRAME_OLD)
			return false;
	return !(frame & ((1u << order) - 1));
}

/* A free of pages that are not one block of the model: page by page. */
static void free_pieces(struct replay *r, const struct waiting *e, int rows)
{
	uint32_t first = r->map[e->frame], pages = 1u << e->order, freed = 0;
	int kind = ANOMALY_KIND_ORDER_MISMATCH;

	for (uint32_t i = 0; i < pages; i++)
		freed += free_page(r, e->frame + i, rows);
	if (!freed && first == MAP_UNSERVED)
		return;
	if (first == MAP_FREED)
		kind = ANOMALY_KIND_FREE_OF_FREE;
	else if (freed < pages)
		kind = ANOMALY_KIND_FREE_UNKNOWN;
	report_anomaly(r, e, kind, freed ? ANOMALY_ACTION_FREED_BY_PAGE : ANOMALY_ACTION_IGNORED);
}

/* A free takes effect. */
static void commit_free(struct replay *r, const struct waiting *e, int rows)
{
	struct model *m = r->model;
	uint32_t place = r->map[e->frame];

	if (map_has_page(place)) {
		if (!block_carve(m, place - 1, e->order)) {
			free_pieces(r, e, rows);
			return;
		}
		map_set(r, e->frame, e->order, MAP_FREED, false);
		free_block(r, place - 1, e->order, rows);
	} else if (all_old(r, e->frame, e->order)) {
		map_set(r, e->frame, e->order, MAP_FREED, false);
		free_block(r, e->frame, e->order, rows);
	} else {
		free_pieces(r, e, rows);
	}
}

/* The free of a batch is reported before it takes effect. */
static void report_free(struct replay *r, const struct waiting *e)
{
	struct model *m = r->model;
	uint32_t place;

	if (!m->events)
		return;
	place = r->map[e->frame];
	if (map_has_page(place))
		events_free(m->events, &m->now, (int64_t)frame_pfn(m, place - 1), e->order);
	else if (all_old(r, e->frame, e->order))
		events_free(m->events, &m->now, (int64_t)frame_pfn(m, e->frame), e->order);
}

static void commit_batched(struct replay *r, struct waiting *e)
{
	uint32_t place = r->map[e->frame];

	if (e->batched) {
		commit_free(r, e, ROW_FREE_BATCHED);
	} else if (map_has_page(place)) {
		/* Its free was lost, or this is a kernel that reports no other. */
		e->order = r->model->frames[place - 1].order;
		commit_free(r, e, ROW_FREE | ROW_FREE_BATCHED);
	}
}

/*
 * The record hands out pages that the model holds as used since before the start, so
 * they were free after all: on a PCP list, if the snapshot could not see all of those.
 */
static void reveal_old(struct replay *r, const struct waiting *e)
{
	struct model *m = r->model;
	struct zone *zone = frame_zone(m, e->frame);
	uint64_t pages = 1ull << e->order;

	if (!all_old(r, e->frame, e->order))
		return;
	zone_forget_old(m, e->frame, e->order);
	if (pcp_allowed(m, e->order) && zone->pcp_unseen >= pages &&
	    e->migratetype <= MIGRATETYPE_RECLAIMABLE) {
		zone->pcp_unseen -= pages;
		pcp_push(m, zone_pcp(m, zone, e->moment.cpu), e->frame, e->order, e->migratetype,
			 frame_block(m, e->frame)->migratetype, false);
		return;
	}
	free_direct(m, zone, e->frame, e->order);
	report_anomaly(r, e, ANOMALY_KIND_ALLOC_OF_USED, ANOMALY_ACTION_FREED_BY_PAGE);
}

/* The record hands out pages whose free it never showed. */
static void free_missed(struct replay *r, const struct waiting *e)
{
	bool missed = false;

	for (uint32_t i = 0; i < 1u << e->order; i++)
		if (map_has_page(r->map[e->frame + i]))
			missed |= free_page(r, e->frame + i, ROW_FREE);
	if (missed)
		report_anomaly(r, e, ANOMALY_KIND_ALLOC_OF_USED, ANOMALY_ACTION_FREED_BY_PAGE);
}

/* An alloc; `told`: its event is written as well. */
static void commit_alloc(struct replay *r, const struct waiting *e, bool told)
{
	struct model *m = r->model;
	struct request rq = {
		.gfp_flags = e->gfp_flags,
		.order = e->order,
		.migratetype = e->migratetype,
		.class_zone = (uint8_t)gfp_class_zone(e->gfp_flags),
		.node = e->gfp_flags & GFP_THISNODE ? frame_zone(m, e->frame)->node
						    : m->cpu_nodes[e->moment.cpu],
	};
	uint32_t head;

	free_missed(r, e);
	if (r->map[e->frame] == MAP_UNSEEN && m->frames[e->frame].state == FRAME_OLD)
		reveal_old(r, e);
	head = zone_alloc(m, &rq);
	if (told)
		events_alloc(m->events, &m->now,
			     head == NO_FRAME ? NO_PFN : (int64_t)frame_pfn(m, head), e->order,
			     e->gfp_flags, e->migratetype);
	if (head == NO_FRAME) {
		map_set(r, e->frame, e->order, MAP_UNSERVED, false);
		report_anomaly(r, e, ANOMALY_KIND_NO_FREE_PAGE, ANOMALY_ACTION_LEFT_UNMAPPED);
	} else {
		map_set(r, e->frame, e->order, head + 1, true);
	}
}

/* The event of an alloc that has run already. */
static bool tell_early(struct replay *r, const struct waiting *e)
{
	for (int i = 0; i < r->nr_early; i++) {
		uint32_t place;

		if (r->early[i] != r->at)
			continue;
		place = r->map[e->frame];
		r->early[i] = r->early[--r->nr_early];
		events_alloc(r->model->events, &r->model->now,
			     map_has_page(place) ? (int64_t)frame_pfn(r->model, place - 1) : NO_PFN,
			     e->order, e->gfp_flags, e->migratetype);
		return true;
	}
	return false;
}

/* What no event tells, but other events prove. */
static void run_untold(struct replay *r, const struct untold *u)
{
	struct model *m = r->model;
	struct waiting e = {
		.moment = {m->now.ts, u->pid, u->cpu, 0},
		.frame = u->frame,
		.gfp_flags = u->gfp_flags,
		.kind = EVENT_KIND_ALLOC,
		.order = u->order,
		.migratetype = u->migratetype,
	};
	struct zone *zone = frame_zone(m, u->frame);
	struct pcp *pcp = zone_pcp(m, zone, u->cpu);
	int free_count, free_factor;

	m->now = e.moment;
	r->busy[u->cpu] = true;
	switch (u->kind) {
	case UNTOLD_KIND_EARLY_ALLOC:
		if (r->nr_early == EARLY_MAX)
			return;
		r->early[r->nr_early++] = u->told_at;
		commit_alloc(r, &e, false);
		break;
	case UNTOLD_KIND_ALLOC:
		/* alloc_pages_bulk takes entries without a word to the PCP's tuning */
		free_count = pcp->free_count;
		free_factor = pcp->free_factor;
		commit_alloc(r, &e, false);
		pcp->free_count = free_count;
		pcp->free_factor = free_factor;
		break;
	case UNTOLD_KIND_DIRECT_FREE:
		m->pcp_locked = u->at == r->at;
		break;
	case UNTOLD_KIND_TUNED:
		pcp->alloc_factor = u->alloc_factor;
		zone->below_high = u->below_high;
		break;
	default:
		pcp_drain(m, zone, pcp);
	}
}

/* What the kernel did aside before event number `at` at `end`. */
static void run_asides(struct replay *r, uint64_t at, uint64_t end)
{
	const struct aside *aside;
	struct model *m = r->model;

	while ((aside = asides_next(&r->start.asides, at))) {
		uint64_t ts = aside->ts < end ? aside->ts : end;

		ts = ts > m->now.ts ? ts : m->now.ts;
		advance(r, ts);
		m->now = (struct moment){.ts = ts};
		if (aside->kind != ASIDE_TICK) {
			asides_kswapd(&r->start.asides, m, aside);
			continue;
		}
		m->now.cpu = aside->where;
		pcp_tick(m, aside->where);
	}
}

static void run(struct replay *r, struct waiting *e)
{
	struct model *m = r->model;

	r->at += e->at - (uint32_t)r->at;
	m->now = e->moment;
	r->busy[e->moment.cpu] = true;
	switch (e->kind) {
	case EVENT_KIND_ALLOC:
		if (r->nr_early && tell_early(r, e))
			break;
		if (e->frame == NO_FRAME)
			events_alloc(m->events, &m->now, NO_PFN, e->order, e->gfp_flags,
				     e->migratetype);
		else
			commit_alloc(r, e, true);
		break;
	case EVENT_KIND_FREE:
		if (e->batched)
			report_free(r, e);
		else
			commit_free(r, e, ROW_FREE);
		break;
	default:
		commit_batched(r, e);
	}
}

/* Let everything happen that was before a request. */
static void catch_up(struct replay *r, const struct waiting *e)
{
	struct asides *asides = &r->start.asides;
	const struct untold *untold;
	uint64_t ts = e->moment.ts;

	r->at += e->at - (uint32_t)r->at;
	if (asides->next < asides->nr)
		run_asides(r, r->at, ts);
	if (asides->nr_passes)
		asides_seen(asides, r->model, e->moment.pid, ts);
	if (ts >= r->next_tick || ts >= r->interval_end)
		advance(r, ts);
	r->model->now = e->moment;
	while ((untold = untolds_next(&r->start.untolds, r->at)))
		run_untold(r, untold);
}

/* Whether there is nothing to catch up with until after a request. */
static bool is_quiet(const struct replay *r, const struct waiting *e)
{
	const struct asides *asides = &r->start.asides;
	const struct untolds *untolds = &r->start.untolds;
	uint64_t ts = e->moment.ts, at = r->at + (e->at - (uint32_t)r->at);

	return ts < r->next_tick && ts < r->interval_end && !asides->nr_passes &&
	       (asides->next == asides->nr || asides->rows[asides->next].at > at) &&
	       (untolds->next == untolds->nr || untolds->rows[untolds->next].at > at);
}

/*
 * Run the requests that are due. Their pages are all over the memory: where the model
 * put those of a whole chunk is looked up first, and the map's entries of the next chunk
 * are on their way by then.
 */
static void run_due(struct replay *r, bool flush)
{
	struct waiting *due, *next;
	bool quiet;
	size_t nr;

	while ((nr = requests_due(&r->requests, flush, &due, &next))) {
		for (size_t i = 0; i < REQUESTS_CHUNK; i++)
			if (next[i].frame != NO_FRAME)
				__builtin_prefetch(&r->map[next[i].frame]);
		for (size_t i = 0; i < nr; i++)
			if (due[i].frame != NO_FRAME && map_has_page(r->map[due[i].frame]))
				__builtin_prefetch(&r->model->frames[r->map[due[i].frame] - 1]);
		quiet = is_quiet(r, &due[nr - 1]);
		for (size_t i = 0; i < nr; i++) {
			if (!quiet)
				catch_up(r, &due[i]);
			run(r, &due[i]);
			r->model->pcp_locked = false;
		}
	}
}

static void feed_rows(struct replay *r, const struct event_columns *c, size_t first, size_t end)
{
	while (first < end) {
		first = requests_read(&r->requests, c, r->totals.events, first, end);
		run_due(r, false);
	}
}

/* Feed what of a batch lies in the spans. */
static void feed_spans(struct replay *r, const struct event_columns *c, size_t nr)
{
	static const struct span all = {0, UINT64_MAX};
	const struct span *spans = r->config.nr_spans ? r->config.spans : &all;
	size_t nr_spans = r->config.nr_spans ? r->config.nr_spans : 1;
	uint64_t at = r->totals.events;

	for (size_t s = 0; s < nr_spans; s++) {
		uint64_t first = spans[s].first > at ? spans[s].first - at : 0;
		uint64_t end = spans[s].end > at ? spans[s].end - at : 0;

		feed_rows(r, c, first, end < nr ? end : nr);
	}
	r->totals.events += nr;
	r->totals.requests = r->requests.arrived;
	r->totals.recorded_failures = r->requests.failures;
}

static int outputs_error(const struct replay *r, struct error *err)
{
	int ret = output_error(r->events.output, err);

	if (!ret)
		ret = output_error(r->anomalies.output, err);
	if (!ret)
		ret = output_error(r->counter, err);
	if (!ret)
		ret = output_error(r->event_count, err);
	for (int i = 0; i < NR_END && !ret; i++)
		ret = output_error(r->end[i], err);
	return ret;
}

int replay_feed_columns(struct replay *r, const struct event_columns *columns, size_t nr,
			struct error *err)
{
	int ret = start(r, err);
	double begin;

	if (ret)
		return ret;
	if (r->finished)
		return fail(err, EINVAL, "events after the end of the tape");
	begin = cpu_seconds();
	feed_spans(r, columns, nr);
	r->totals.loop_seconds += cpu_seconds() - begin;
	return outputs_error(r, err);
}

int replay_feed(struct replay *r, const struct ArrowSchema *schema, const struct ArrowArray *array,
		struct error *err)
{
	struct event_columns columns;
	size_t nr;
	int ret = table_check_schema(&event_table, schema, err);

	if (!ret)
		ret = table_borrow(&event_table, array, &columns, &nr, err);
	return ret ? ret : replay_feed_columns(r, &columns, nr, err);
}

/* The row of event at which the tape, or what is played of it, is over. */
static uint64_t end_of_tape(const struct replay *r)
{
	uint64_t end = r->totals.events;

	if (r->config.nr_spans && r->config.spans[r->config.nr_spans - 1].end < end)
		end = r->config.spans[r->config.nr_spans - 1].end;
	return end;
}

int replay_finish(struct replay *r, struct error *err)
{
	double begin = cpu_seconds();
	int ret = start(r, err);

	if (ret)
		return ret;
	if (r->finished)
		return fail(err, EINVAL, "the tape is over already");
	run_due(r, true);
	run_asides(r, end_of_tape(r), r->requests.last_ts);
	if (r->interval_end)
		end_interval(r);
	r->totals.loop_seconds += cpu_seconds() - begin;
	tally_write(&r->tally, r->event_count);
	snapshot_write(r->model, r->end, r->requests.last_ts);
	r->finished = true;
	return outputs_error(r, err);
}

struct batch *replay_read(struct replay *r)
{
	struct batch *batch = output_pop(r->events.output, r->finished);

	if (!batch)
		batch = output_pop(r->anomalies.output, r->finished);
	if (!batch)
		batch = output_pop(r->counter, r->finished);
	if (!batch)
		batch = output_pop(r->event_count, r->finished);
	for (int i = 0; i < NR_END && !batch; i++)
		batch = output_pop(r->end[i], r->finished);
	return batch;
}

const struct totals *replay_totals(const struct replay *r)
{
	return &r->totals;
}

struct model *replay_model(struct replay *r)
{
	return r->start.model;
}

const char *counter_name(int n)
{
#define NAME(name) #name,
	static const char *const names[] = {FOR_EACH_COUNTER(NAME)};
#undef NAME

	return n < (int)(sizeof(names) / sizeof(names[0])) ? names[n] : NULL;
}

uint64_t counter_total(const struct totals *totals, int n)
{
#define VALUE(name) totals->counters.name,
	const uint64_t values[] = {FOR_EACH_COUNTER(VALUE)};
#undef VALUE

	return values[n];
}

// SPDX-License-Identifier: Apache-2.0
#include "model/clock.h"
#include "model/memory.h"
#include "model/owed.h"
#include "model/pcp.h"
#include "model/slow_path.h"
#include "model/policy_stack.h"
#include "replay_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum {
	EVENT_ROWS = 1 << 16, /* of a batch of output */
	OTHER_ROWS = 1 << 14,
};
#define TICK_NS 1000000000ull /* vm.stat_interval */

static const struct table *const series_tables[NR_SERIES] = {
	[SERIES_COUNTER] = &counter_table,
	[SERIES_OCCUPANCY] = &pcp_occupancy_table,
	[SERIES_LOCK] = &zone_lock_table,
	[SERIES_LOCK_WAIT] = &lock_wait_table,
};

/* The output lists, in the order in which they are read. */
static int open_outputs(struct replay *r, struct error *err)
{
	int ret = run_output(&r->run, &r->events.output, &event_table, EVENT_ROWS, err);
	int nr_end = r->config.counted ? NR_END_COUNTED : NR_END;

	for (int i = 0; i < NR_SERIES && !ret; i++)
		ret = run_output(&r->run, &r->series[i], series_tables[i], OTHER_ROWS, err);
	ret = ret ?: run_output(&r->run, &r->event_count, &event_count_table, OTHER_ROWS, err);
	ret = ret ?: run_output(&r->run, &r->huge_request, &huge_request_table, OTHER_ROWS, err);
	for (int i = 0; i < NR_FRAGMENTATION_SAMPLE && !ret; i++)
		ret = run_output(&r->run, &r->samples[i], fragmentation_sample_tables[i],
				 OTHER_ROWS, err);
	for (int i = 0; i < nr_end && !ret; i++)
		ret = run_output(&r->run, &r->end[i], end_tables[i], OTHER_ROWS, err);
	return ret;
}

int replay_new(struct replay **out, const struct replay_config *config, struct error *err)
{
	struct replay *r = calloc(1, sizeof(*r));
	int ret;

	*out = NULL;
	if (!r)
		return fail(err, ENOMEM, "no memory for a replay");
	r->config = *config;
	r->reclaim.supply.mode = config->reclaim;
	r->totals.anomalies = r->run.nr_anomalies;
	ret = run_init(&r->run, &config->run, err);
	if (!ret && config->run.machine.zone_events && config->reclaim != RECLAIM_AS_RECORDED)
		ret = fail(err, EINVAL,
			   "reclaim of the model's own needs page events, which a tape of the "
			   "event set zone does not have: use --reclaim R0, or record with "
			   "--events all");
	ret = ret ?: open_outputs(r, err);
	if (ret) {
		replay_free(r);
		return ret;
	}
	*out = r;
	return 0;
}

void replay_free(struct replay *r)
{
	if (!r)
		return;
	run_free(&r->run);
	event_counts_free(&r->event_counts);
	free(r);
}

int replay_load(struct replay *r, const char *name, const struct ArrowSchema *schema,
		const struct ArrowArray *array, struct error *err)
{
	int ret = run_load(&r->run, name, schema, array, err);

	if (ret || !reclaim_run_reads(name))
		return ret;
	ret = load_model(&r->run.load, err);
	if (ret)
		return ret;
	r->reclaim.model = r->run.load.model;
	r->reclaim.first = r->run.load.first;
	return reclaim_run_load(&r->reclaim, name, schema, array, err);
}

/* The policies' choices about the clocks of the run. */
static int choose_clocks(struct replay *r, struct error *err)
{
	struct policy_stack *stack = r->run.policies;
	struct policy *ticks = stack->owner.tick_ns, *locks = stack->owner.lock_costs;
	struct lock_costs costs;
	int ret;

	r->tick_ns = ticks->ops->tick_ns(ticks);
	r->recorded_ticks = !r->tick_ns && r->run.load.reclaim_events.ticks;
	stack->changes_pcps |= r->tick_ns != 0;
	if (!r->tick_ns)
		r->tick_ns = TICK_NS;
	if (!locks->ops->lock_costs(locks, &costs))
		return 0;
	ret = zone_lock_queues_new(&r->zone_locks, r->model, &costs, err);
	if (ret)
		return ret;
	r->zone_lock_ops = zone_lock_queues_ops(r->zone_locks);
	r->model->zone_lock_ops = &r->zone_lock_ops;
	return 0;
}

/* Set up reclaim and compaction: the run's own (R1, R2), or the recorded ones. */
static int start_reclaim(struct replay *r, struct error *err)
{
	const struct reclaim_events *recorded = &r->run.load.reclaim_events;
	bool own = r->config.reclaim != RECLAIM_AS_RECORDED;
	int ret = 0;

	r->serve.compacts_for_record = r->config.compacts_for_record && !own;
	if (r->serve.compacts_for_record || own)
		ret = page_map_allow_moves(&r->serve.pages, err);
	if (ret || !own)
		return ret;
	r->reclaim.model = r->model;
	r->reclaim.supply.how = &r->serve.request.free;
	r->reclaim.supply.strays = &r->serve.strays;
	ret = strays_new(&r->serve.strays, &r->serve.pages, err);
	if (ret)
		return ret;
	if (r->config.events)
		ret = run_output(&r->run, &r->reclaim.rows.reclaim, &reclaim_table, OTHER_ROWS,
				 err);
	if (!ret && r->config.events)
		ret = run_output(&r->run, &r->reclaim.rows.compaction, &compaction_table,
				 OTHER_ROWS, err);
	ret = ret ?: reclaim_run_start(&r->reclaim, &r->serve.pages, &r->serve.at, err);
	for (int node = 0; !ret && node < r->model->nr_nodes; node++)
		r->reclaim.kswapds[node].pid = recorded->kswapds[node].pid;
	return ret;
}

static int start_variation(struct replay *r, struct error *err)
{
	struct variation_run run = {.model = r->model,
				    .inferred = &r->run.load.inferred_rows,
				    .first = r->run.load.first,
				    .at = &r->serve.at};

	return variation_start(&r->variation, &run, &r->config.variation, err);
}

static int start(struct replay *r, struct error *err)
{
	int ret;

	if (r->run.started)
		return 0;
	ret = run_start(&r->run, err);
	if (ret)
		return ret;
	r->model = r->run.model;
	r->busy = arrays_new(r->model->arrays, (size_t)r->model->nr_cpus, sizeof(*r->busy));
	if (!r->busy)
		return arrays_error(r->model->arrays, err);
	for (int cpu = 0; cpu < r->model->nr_cpus; cpu++)
		r->busy[cpu] = true;
	ret = choose_clocks(r, err);
	ret = ret ?: pcp_occupancies_new(&r->occupancies, r->model, err);
	ret = ret ?: serve_init(&r->serve, r->model, r->run.anomalies, err);
	if (!ret)
		ret = rewrites_init(&r->rewrites, r->config.rewrites, r->config.nr_rewrites,
				    r->model, err);
	r->serve.rewrites = r->rewrites.nr ? &r->rewrites : NULL;
	ret = ret ?: requests_init(&r->requests, r->model, r->run.anomalies, err);
	if (!ret && r->config.counted)
		ret = event_counts_init(&r->event_counts, r->model->nr_cpus, &r->config.recorder,
					err);
	if (ret)
		return ret;
	r->events.event_counts = r->config.counted ? &r->event_counts : NULL;
	r->run.load.reclaim_events.nr_reclaiming = 0; /* those at the end of the tape */
	r->model->record->drains_inferred = r->run.load.inferred_rows.nr > 0;
	r->model->events = r->config.events ? &r->events : NULL;
	ret = start_reclaim(r, err);
	ret = ret ?: start_variation(r, err);
	r->run.started = !ret;
	return ret;
}

/* A recorded request begins direct reclaim. */
static void direct_begin(struct replay *r, const struct reclaim_event *event)
{
	struct model *m = r->model;
	struct request rq = {
		.gfp_flags = event->gfp_flags,
		.order = event->order,
		.migratetype = (uint8_t)gfp_migratetype(event->gfp_flags),
		.class_zone = (uint8_t)gfp_class_zone(m, event->gfp_flags),
		.node = m->cpu_nodes[event->where],
	};

	m->now.cpu = event->where;
	reclaim_events_direct_begin(&r->run.load.reclaim_events, event,
				    !m->reclaim_ops && rq.migratetype <= MIGRATETYPE_RECLAIMABLE &&
					    slow_path_recorded(m, &rq));
}

/* Rows of reclaim before event number `at`, not later than `end`. */
static void run_reclaim_events(struct replay *r, uint64_t at, uint64_t end)
{
	struct reclaim_events *events = &r->run.load.reclaim_events;
	const struct reclaim_event *event;
	struct model *m = r->model;

	while ((event = reclaim_events_next(events, at))) {
		bool is_tick = event->kind == RECLAIM_EVENT_TICK;
		uint64_t ts = event->ts < end ? event->ts : end;

		ts = ts > m->now.ts ? ts : m->now.ts;
		intervals_advance(r, ts);
		m->now = (struct moment){.ts = ts};
		/* With feedback the model reclaims by itself. */
		if (event->kind == RECLAIM_EVENT_DIRECT_BEGIN)
			direct_begin(r, event);
		if ((!is_tick && m->reclaim_ops) || run_reclaim_event(&r->run, event))
			continue;
		if (!is_tick) {
			reclaim_events_direct_end(events, m, event);
		} else if (r->recorded_ticks) {
			m->now.cpu = event->where;
			pcp_tick(m, event->where);
		}
	}
}

/* A request begins. */
static inline void begin(struct replay *r, const struct waiting *e)
{
	r->serve.at += e->at - (uint32_t)r->serve.at;
	r->model->now = e->moment;
	r->busy[e->moment.cpu] = true;
}

/* Whether the run's own reclaim answers a request of the record. */
static bool is_for_reclaim(struct replay *r, const struct waiting *e)
{
	struct reclaim_supply *supply = &r->reclaim.supply;

	if (!r->model->reclaim_ops)
		return false;
	if (reclaim_supply_withholds(supply, r->serve.at))
		return true;
	return e->kind == EVENT_KIND_FREE && e->frame != NO_FRAME && !e->order &&
	       reclaim_supply_frees_moved(supply, e->frame);
}

/* A free of the record's reclaim pays what reclaim owes. */
static void pay_free(struct replay *r, const struct waiting *e)
{
	struct model *m = r->model;

	if (e->frame == NO_FRAME)
		return;
	if ((e->kind == EVENT_KIND_FREE ? !e->batched : e->kind == EVENT_KIND_FREE_BATCHED) &&
	    reclaim_events_reclaims(&r->run.load.reclaim_events, m, e->moment.pid))
		pay_owed(m, frame_zone(m, e->frame)->node, NR_ZONE - 1, 1ll << e->order);
}

/* A request for pages: an alloc, or a page of a refill. */
static bool is_alloc(const struct waiting *e)
{
	return e->kind == EVENT_KIND_ALLOC || e->kind == EVENT_KIND_ALLOC_ZONE_LOCKED;
}

static void run_request(struct replay *r, struct waiting *e)
{
	struct reclaim_events *recorded = &r->run.load.reclaim_events;
	bool below_min = false;

	begin(r, e);
	if (is_for_reclaim(r, e))
		return;
	r->serve.request.reclaimed =
		recorded->nr_reclaimed && is_alloc(e) &&
		reclaim_events_take_reclaimed(recorded, e->moment.pid, e->order, &below_min);
	if (below_min && e->frame != NO_FRAME)
		zone_counters(r->model, frame_zone(r->model, e->frame))->below_min++;
	if (r->model->owed && !r->model->reclaim_ops)
		pay_free(r, e);
	serve_request(&r->serve, e);
	if (e->kind == EVENT_KIND_ALLOC && e->frame != NO_FRAME)
		ages_allocated(&r->reclaim.supply.ages, e->frame, e->gfp_flags, e->migratetype);
}

/* Run what stands in the place of a request. */
static void run_rewritten(struct replay *r, const struct waiting *e)
{
	struct waiting first, piece;
	uint32_t nr = rewrites_of(&r->rewrites, &r->serve, e, &first);

	for (uint32_t i = 0; i < nr; i++) {
		piece = first;
		if (i)
			piece.frame += i << first.order;
		run_request(r, &piece);
	}
}

/* Prefetch the frame of the model's page of a request. */
static void prefetch_place(const struct replay *r, const struct waiting *e)
{
	uint32_t place =
		e->frame == NO_FRAME ? NO_FRAME : page_map_place(&r->serve.pages, e->frame);

	if (place != NO_FRAME)
		__builtin_prefetch(&r->model->frames[place]);
}

/* Play the inferred rows before a request, each after its earlier reclaim events. */
static void run_inferred(struct replay *r)
{
	struct reclaim_events *reclaim_events = &r->run.load.reclaim_events;
	const struct inferred *inferred;

	while ((inferred = inferred_next(&r->run.load.inferred_rows, r->serve.at))) {
		/* Of a moved row, the time is that of the request before it. */
		uint64_t ts = inferred->ts ? inferred->ts : r->model->now.ts;

		/* With feedback compaction is the model's own. */
		if (r->model->reclaim_ops && inferred_is_compaction(inferred->kind))
			continue;
		if (reclaim_events->next < reclaim_events->nr)
			run_reclaim_events(r, inferred->at, ts);
		if (reclaim_events->nr_passes)
			reclaim_events_seen(reclaim_events, r->model, inferred->pid, ts);
		r->busy[inferred->cpu] = true;
		serve_inferred(&r->serve, inferred);
	}
}

/* Play everything that comes before a request. */
static void catch_up(struct replay *r, const struct waiting *e)
{
	struct reclaim_events *reclaim_events = &r->run.load.reclaim_events;
	uint64_t ts = e->moment.ts;

	r->serve.at += e->at - (uint32_t)r->serve.at;
	load_follow_limits(&r->run.load, r->serve.at);
	run_inferred(r);
	if (reclaim_events->next < reclaim_events->nr)
		run_reclaim_events(r, r->serve.at, ts);
	if (reclaim_events->nr_passes)
		reclaim_events_seen(reclaim_events, r->model, e->moment.pid, ts);
	if (r->model->record->boosted_nodes || reclaim_events->nr_own_passes)
		reclaim_events_boosts(reclaim_events, r->model, ts);
	if (ts >= r->next_tick || ts >= r->interval_end || ts >= r->next_look)
		intervals_advance(r, ts);
	if (r->model->reclaim_ops && reclaim_run_is_due(&r->reclaim, r->serve.at, ts))
		reclaim_run_until(&r->reclaim, r->serve.at, ts);
	r->model->now = e->moment;
}

/*
 * Show the observer the state before each of its rows up to a request. Everything before that row
 * has run.
 */
static void show_row(struct replay *r, const struct waiting *e, uint64_t at, bool request)
{
	const struct run_observer *observer = r->run.config.observer;
	struct waiting before = *e;

	if (at > r->serve.at) {
		before.at = (uint32_t)at - 1;
		catch_up(r, &before);
	}
	observer->before(observer->self, r->model, at, request);
}

static void show_request(struct replay *r, const struct waiting *e)
{
	const uint64_t *stops = r->run.config.observer->stops;
	uint64_t at = r->serve.at + (e->at - (uint32_t)r->serve.at);

	while (r->next_stop < OBSERVER_STOPS && at > stops[r->next_stop])
		show_row(r, e, stops[r->next_stop++], false);
	show_row(r, e, at, true);
}

/* After a request: compare its page with the recorded one. */
static void compare_page(struct replay *r, const struct waiting *e)
{
	uint32_t place;

	if (r->wrong_page.known || !is_alloc(e) || e->frame == NO_FRAME)
		return;
	place = page_map_place(&r->serve.pages, e->frame);
	if (place == e->frame)
		return;
	r->wrong_page = (struct wrong_page){
		.known = true,
		.at = r->serve.at,
		.ts = e->moment.ts,
		.expected = place == NO_FRAME ? UINT64_MAX : frame_pfn(r->model, place),
		.got = frame_pfn(r->model, e->frame),
		.cpu = e->moment.cpu,
		.order = e->order,
		.migratetype = e->migratetype,
	};
}

/* Whether only requests have to run, up to and including a request. */
static bool is_quiet(const struct replay *r, const struct waiting *e)
{
	const struct reclaim_events *reclaim_events = &r->run.load.reclaim_events;
	const struct inferred_rows *inferred_rows = &r->run.load.inferred_rows;
	uint64_t ts = e->moment.ts, at = r->serve.at + (e->at - (uint32_t)r->serve.at);

	return !r->model->reclaim_ops && !r->model->owed && !reclaim_events->nr_passes &&
	       !reclaim_events->nr_own_passes && !r->model->record->boosted_nodes &&
	       !reclaim_events->nr_reclaimed && ts < r->next_tick && ts < r->interval_end &&
	       ts < r->next_look && r->variation.next > at &&
	       (reclaim_events->next == reclaim_events->nr ||
		reclaim_events->rows[reclaim_events->next].at > at) &&
	       (inferred_rows->next == inferred_rows->nr ||
		inferred_rows->rows[inferred_rows->next].at > at);
}

/*
 * Run the due requests. Their pages are spread over the memory, so the frames of a whole chunk are
 * prefetched; the entries of the map for that were prefetched during the previous chunk.
 */
static void run_due(struct replay *r, bool flush)
{
	struct waiting *due, *next;
	bool quiet;
	size_t nr;

	while ((nr = requests_due(&r->requests, flush, &due, &next))) {
		for (size_t i = 0; i < nr; i++)
			prefetch_place(r, &due[i]);
		quiet = !r->config.explains && !r->rewrites.nr && is_quiet(r, &due[nr - 1]);
		for (size_t i = 0; i < nr; i++) {
			if (quiet && !r->model->record->boosted_nodes && !r->model->owed) {
				begin(r, &due[i]);
				serve_request(&r->serve, &due[i]);
			} else {
				if (r->run.config.observer)
					show_request(r, &due[i]);
				catch_up(r, &due[i]);
				if (r->variation.next <= r->serve.at)
					variation_run(&r->variation, &due[i], r->serve.at);
				if (r->rewrites.nr)
					run_rewritten(r, &due[i]);
				else
					run_request(r, &due[i]);
				if (r->config.explains)
					compare_page(r, &due[i]);
				r->serve.request = no_facts;
			}
			if (next[i].frame != NO_FRAME)
				__builtin_prefetch(&r->serve.pages.map[next[i].frame]);
		}
	}
}

static int feed_rows(void *self, const struct event_columns *c, size_t first, size_t end,
		     struct error *err)
{
	struct replay *r = self;

	while (first < end) {
		first = requests_read(&r->requests, c, r->run.rows, first, end);
		run_due(r, false);
	}
	return 0;
}

int replay_feed_columns(struct replay *r, const struct event_columns *columns, size_t nr,
			struct error *err)
{
	int ret = start(r, err);

	ret = ret ?: run_feed(&r->run, columns, nr, feed_rows, r, err);
	r->totals.events = r->run.rows;
	r->totals.loop_seconds = r->run.loop_seconds;
	r->totals.requests = r->requests.arrived;
	r->totals.recorded_failures = r->requests.failures;
	r->totals.rewritten = r->rewrites.rewritten;
	r->totals.kept = r->rewrites.kept;
	return ret;
}

int replay_feed(struct replay *r, const struct ArrowSchema *schema, const struct ArrowArray *array,
		struct error *err)
{
	struct event_columns columns;
	size_t nr;
	int ret = table_read(&event_table, schema, array, &columns, &nr, err);

	return ret ? ret : replay_feed_columns(r, &columns, nr, err);
}

int replay_finish(struct replay *r, struct error *err)
{
	double begin = cpu_seconds();
	int ret = start(r, err);

	if (ret)
		return ret;
	if (!r->run.finished) {
		run_due(r, true);
		run_reclaim_events(r, run_end(&r->run), r->requests.last_ts);
		if (r->model->reclaim_ops)
			reclaim_run_finish(&r->reclaim, r->requests.last_ts);
		if (r->zone_locks)
			zone_lock_queues_finish(r->zone_locks);
		if (r->interval_end)
			intervals_end(r, r->requests.last_ts + 1);
		event_counts_write(&r->event_counts, r->event_count);
		huge_requests_write(&r->serve.huge_requests, r->huge_request);
		snapshot_write(r->model, r->end, r->requests.last_ts);
	}
	r->totals.rewritten = r->rewrites.rewritten;
	r->totals.kept = r->rewrites.kept;
	ret = run_finish(&r->run, err);
	r->totals.loop_seconds += cpu_seconds() - begin;
	return ret;
}

struct batch *replay_read(struct replay *r)
{
	return run_read(&r->run);
}

const struct totals *replay_totals(const struct replay *r)
{
	return &r->totals;
}

const char *replay_policy_effect(const struct replay *r, int n, struct policy_effect *effect)
{
	assert(r->run.finished);
	return policy_stack_effect(r->run.policies, n, r->model, &r->totals.counters, effect);
}

uint64_t replay_drawn(const struct replay *r, int n)
{
	return variation_drawn(&r->variation, n);
}

const struct wrong_page *replay_wrong_page(const struct replay *r)
{
	return &r->wrong_page;
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

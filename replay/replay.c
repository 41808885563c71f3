// SPDX-License-Identifier: Apache-2.0
#include "replay.h"

#include "anomalies.h"
#include "clock.h"
#include "level.h"
#include "lock_queue.h"
#include "passes.h"
#include "pcp.h"
#include "policy_stack.h"
#include "serve.h"
#include "snapshot.h"
#include "start.h"
#include "survey.h"
#include "tally.h"
#include "watermark.h"
#include "zone.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	EVENT_ROWS = 1 << 16, /* of a batch of output */
	OTHER_ROWS = 1 << 14,
};
#define TICK_NS         1000000000ull /* vm.stat_interval */
#define MIN_INTERVAL_NS 1000000ull

/* Tables that grow with every interval. */
enum { SERIES_COUNTER, SERIES_LEVEL, SERIES_LOCK, SERIES_LOCK_WAIT, NR_SERIES };
static const struct table *const series_tables[NR_SERIES] = {
	[SERIES_COUNTER] = &counter_table,
	[SERIES_LEVEL] = &pcp_level_table,
	[SERIES_LOCK] = &zone_lock_table,
	[SERIES_LOCK_WAIT] = &lock_wait_table,
};

struct replay {
	struct replay_config config;
	struct policy_stack *policies;
	struct start start;
	struct model *model; /* that of start, once started */
	bool started, finished;

	struct requests requests;
	struct serve serve;

	bool *busy;      /* [cpu] its next tick may find something to do */
	bool told_ticks; /* the tape says when CPUs tick; else each tick_ns */
	uint64_t tick_ns, next_tick, next_look, interval_end;
	struct levels levels;

	struct events events;
	struct tally tally;
	struct anomalies anomalies;
	struct output *series[NR_SERIES], *event_count, *survey[NR_SURVEY], *end[NR_END];
	struct totals totals;
	struct wrong_page wrong_page;
	struct witness *witness;
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
	for (int i = 0; i < config->nr_policy_libs && !ret; i++)
		ret = policy_stack_open(r->policies, config->policy_libs[i], err);
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
		.feedback.reclaim.mode = config->reclaim,
	};
	policy_stack_edit(r->policies, &r->start.kernel);
	ret = output_new(&r->events.output, &event_table, EVENT_ROWS, err);
	if (!ret)
		ret = output_new(&r->anomalies.output, &anomaly_table, OTHER_ROWS, err);
	for (int i = 0; i < NR_SERIES && !ret; i++)
		ret = output_new(&r->series[i], series_tables[i], OTHER_ROWS, err);
	if (!ret)
		ret = output_new(&r->event_count, &event_count_table, OTHER_ROWS, err);
	for (int i = 0; i < NR_SURVEY && !ret; i++)
		ret = output_new(&r->survey[i], survey_tables[i], OTHER_ROWS, err);
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
	serve_free(&r->serve);
	witness_free(r->witness);
	if (r->model)
		lock_queues_free(r->model->lock_queues);
	levels_free(&r->levels);
	start_free(&r->start);
	policy_stack_free(r->policies);
	output_free(r->events.output);
	output_free(r->anomalies.output);
	for (int i = 0; i < NR_SERIES; i++)
		output_free(r->series[i]);
	output_free(r->event_count);
	tally_free(&r->tally);
	for (int i = 0; i < NR_SURVEY; i++)
		output_free(r->survey[i]);
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

/* What the policies say about the time the run keeps. */
static int choose_clocks(struct replay *r, struct error *err)
{
	struct policy *ticks = r->policies->owner.tick_ns, *locks = r->policies->owner.lock_costs;
	struct lock_costs costs;

	r->tick_ns = ticks->ops->tick_ns(ticks);
	r->told_ticks = !r->tick_ns && r->start.asides.ticks;
	if (!r->tick_ns)
		r->tick_ns = TICK_NS;
	if (!locks->ops->lock_costs(locks, &costs))
		return 0;
	return lock_queues_new(&r->model->lock_queues, r->model, &costs, err);
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
	r->busy = calloc((size_t)r->model->nr_cpus, sizeof(*r->busy));
	if (!r->busy)
		return fail(err, ENOMEM, "no memory for %d CPUs", r->model->nr_cpus);
	ret = choose_clocks(r, err);
	if (!ret)
		ret = levels_new(&r->levels, r->model, err);
	if (ret)
		return ret;
	ret = serve_init(&r->serve, r->model, r->anomalies, err);
	if (ret)
		return ret;
	r->serve.makes_blocks = r->config.makes_blocks && r->config.reclaim == RECLAIM_AS_RECORDED;
	if (r->serve.makes_blocks || r->config.reclaim != RECLAIM_AS_RECORDED)
		ret = serve_moves_pages(&r->serve, err);
	if (ret)
		return ret;
	ret = requests_init(&r->requests, r->model, r->anomalies, err);
	if (ret)
		return ret;
	if (r->config.counted) {
		ret = tally_init(&r->tally, r->model->nr_cpus, err);
		if (ret)
			return ret;
		r->events.tally = &r->tally;
	}
	if (r->config.witness) {
		ret = witness_new(&r->witness, r->config.witness, r->model, err);
		if (ret)
			return ret;
	}
	for (int cpu = 0; cpu < r->model->nr_cpus; cpu++)
		r->busy[cpu] = true;
	r->model->drains_told = r->start.untolds.nr > 0;
	r->model->events = r->config.events ? &r->events : NULL;
	if (r->config.reclaim != RECLAIM_AS_RECORDED)
		ret = feedback_start(&r->start.feedback, &r->serve, r->config.events, err);
	if (ret)
		return ret;
	for (int node = 0; r->model->feedback && node < r->model->nr_nodes; node++)
		r->model->feedback->kswapds[node].pid = r->start.asides.kswapds[node].pid;
	r->started = true;
	return 0;
}

static void write_counter(struct replay *r, const struct pcp *pcp, uint64_t ts)
{
	const struct zone *zone = &r->model->zones[pcp->zone];
	struct counter_columns *columns;
	size_t i = output_row(r->series[SERIES_COUNTER], &columns);

	if (!columns)
		return;
	columns->ts[i] = ts;
	columns->cpu[i] = pcp->cpu;
	columns->node[i] = zone->node;
	columns->zone[i] = zone->type;
#define WRITE(name) columns->name[i] = pcp->counters.name;
	FOR_EACH_COUNTER(WRITE)
#undef WRITE
#define VALID(name) set_valid(columns->name##_valid, i);
	FOR_EACH_NEWER_COUNTER(VALID)
	if (r->model->feedback) {
		FOR_EACH_FEEDBACK_COUNTER(VALID)
	}
#undef VALID
}

/* The interval ends: what happened becomes rows and totals, the state before `ts` is surveyed. */
static void end_interval(struct replay *r, uint64_t ts)
{
	static const struct counters none;
	struct model *m = r->model;

	for (int i = 0; i < m->nr_zones; i++)
		count_boosted_time(m, &m->zones[i], r->interval_end);
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
	levels_write(&r->levels, m, ts, r->series[SERIES_LEVEL]);
	if (m->lock_queues)
		lock_queues_write(m->lock_queues, m, r->interval_end - r->config.interval_ns,
				  r->series[SERIES_LOCK], r->series[SERIES_LOCK_WAIT]);
	survey_write(m, r->survey, ts);
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

/* Let what is due before `ts` happen: ticks, ends of intervals, looks at the PCPs. */
static void advance(struct replay *r, uint64_t ts)
{
	uint64_t interval = r->config.interval_ns;
	bool busy = true;

	if (!r->next_tick) {
		r->next_tick = ts + r->tick_ns;
		r->next_look = ts;
		levels_start(&r->levels, ts);
		r->interval_end = ts - ts % interval + interval;
		survey_write(r->model, r->survey, ts);
		for (int i = 0; i < r->model->nr_zones; i++)
			r->model->zones[i].boosted_at = ts;
	}
	while (ts >= r->next_tick || ts >= r->interval_end) {
		/* While nobody is busy nothing happens: step over the idle time. */
		if (r->next_tick < r->interval_end) {
			levels_look(&r->levels, r->model, r->next_tick);
			busy = !r->told_ticks && tick(r);
			if (!busy)
				r->next_tick += (ts - r->next_tick) / r->tick_ns * r->tick_ns;
			r->next_tick += r->tick_ns;
		} else {
			end_interval(r, r->interval_end);
			if (!busy)
				r->interval_end += (ts - r->interval_end) / interval * interval;
			r->interval_end += interval;
		}
	}
	if (ts >= r->next_look) {
		levels_look(&r->levels, r->model, ts);
		r->next_look = ts + LEVEL_PERIOD_NS;
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
		/* With feedback the model knows by itself. */
		if (aside->kind != ASIDE_TICK && m->feedback)
			continue;
		if (aside->kind == ASIDE_RECLAIM) {
			zone_mark_tried(m, aside->where, aside->gfp_flags, aside->order);
			continue;
		}
		if (aside->kind == ASIDE_RECLAIMED) {
			asides_reclaimed(&r->start.asides, aside);
			continue;
		}
		if (aside->kind != ASIDE_TICK) {
			asides_kswapd(&r->start.asides, m, aside);
			continue;
		}
		if (!r->told_ticks)
			continue;
		m->now.cpu = aside->where;
		pcp_tick(m, aside->where);
	}
}

/* A request begins. */
static inline void begin(struct replay *r, const struct waiting *e)
{
	r->serve.at += e->at - (uint32_t)r->serve.at;
	r->model->now = e->moment;
	r->busy[e->moment.cpu] = true;
}

static void run(struct replay *r, struct waiting *e)
{
	struct asides *asides = &r->start.asides;

	begin(r, e);
	if (r->model->feedback && reclaim_withholds(&r->start.feedback.reclaim, r->serve.at))
		return;
	if (r->model->feedback && reclaim_frees_moved(&r->start.feedback.reclaim, e))
		return;
	r->model->reclaimed = asides->nr_reclaimed && e->kind == EVENT_KIND_ALLOC &&
			      asides_take_reclaimed(asides, e->moment.pid, e->order);
	serve_request(&r->serve, e);
	if (r->config.reclaim == RECLAIM_SYNTHETIC)
		reclaim_ages(&r->start.feedback.reclaim, e);
}

/* Fetch the model's page of a request. */
static void prefetch_place(const struct replay *r, const struct waiting *e)
{
	uint32_t place = e->frame == NO_FRAME ? NO_FRAME : serve_place(&r->serve, e->frame);

	if (place != NO_FRAME)
		__builtin_prefetch(&r->model->frames[place]);
}

/* What no event told and was before a request; each after what the kernel did aside till then. */
static void run_untolds(struct replay *r)
{
	struct asides *asides = &r->start.asides;
	const struct untold *untold;

	while ((untold = untolds_next(&r->start.untolds, r->serve.at))) {
		/* With feedback compaction is the model's own. */
		if (r->model->feedback && untold_is_compaction(untold->kind))
			continue;
		if (asides->next < asides->nr)
			run_asides(r, untold->at, untold->ts);
		if (asides->nr_passes)
			asides_seen(asides, r->model, untold->pid, untold->ts);
		r->busy[untold->cpu] = true;
		serve_untold(&r->serve, untold);
	}
}

/* Let everything happen that was before a request. */
static void catch_up(struct replay *r, const struct waiting *e)
{
	struct asides *asides = &r->start.asides;
	uint64_t ts = e->moment.ts;

	r->serve.at += e->at - (uint32_t)r->serve.at;
	run_untolds(r);
	if (asides->next < asides->nr)
		run_asides(r, r->serve.at, ts);
	if (asides->nr_passes)
		asides_seen(asides, r->model, e->moment.pid, ts);
	if (ts >= r->next_tick || ts >= r->interval_end || ts >= r->next_look)
		advance(r, ts);
	if (r->model->feedback && feedback_is_due(&r->start.feedback, r->serve.at, ts))
		feedback_run(&r->start.feedback, r->serve.at, ts);
	r->model->now = e->moment;
}

/* What the witness sees before a row, up to that of a request: all before it has run. */
static void see_row(struct replay *r, const struct waiting *e, uint64_t at, bool request)
{
	struct waiting before = *e;

	if (at > r->serve.at) {
		before.at = (uint32_t)at - 1;
		catch_up(r, &before);
	}
	witness_see(r->witness, r->model, at, request);
}

static void see_request(struct replay *r, const struct waiting *e)
{
	const struct witness *w = r->witness;
	uint64_t at = r->serve.at + (e->at - (uint32_t)r->serve.at);

	if (!w->told_before && at > w->config.first)
		see_row(r, e, w->config.first, false);
	if (!w->told_after && at > w->config.ran + 1)
		see_row(r, e, w->config.ran + 1, false);
	see_row(r, e, at, true);
}

/* A request has run: whether it got the page of the record. */
static void compare_page(struct replay *r, const struct waiting *e)
{
	uint32_t place;

	if (r->wrong_page.known || e->kind != EVENT_KIND_ALLOC || e->frame == NO_FRAME)
		return;
	place = serve_place(&r->serve, e->frame);
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

/* Whether nothing but requests is to be run until after a request. */
static bool is_quiet(const struct replay *r, const struct waiting *e)
{
	const struct asides *asides = &r->start.asides;
	const struct untolds *untolds = &r->start.untolds;
	uint64_t ts = e->moment.ts, at = r->serve.at + (e->at - (uint32_t)r->serve.at);

	return !r->model->feedback && !asides->nr_passes && !asides->nr_reclaimed &&
	       ts < r->next_tick && ts < r->interval_end && ts < r->next_look &&
	       (asides->next == asides->nr || asides->rows[asides->next].at > at) &&
	       (untolds->next == untolds->nr || untolds->rows[untolds->next].at > at);
}

/*
 * Run the requests that are due. Their pages are all over the memory: where the model
 * put those of a whole chunk is looked up first; the map's entries for that were fetched
 * while the chunk before ran.
 */
static void run_due(struct replay *r, bool flush)
{
	struct waiting *due, *next;
	bool quiet;
	size_t nr;

	while ((nr = requests_due(&r->requests, flush, &due, &next))) {
		for (size_t i = 0; i < nr; i++)
			prefetch_place(r, &due[i]);
		quiet = !r->config.explains && is_quiet(r, &due[nr - 1]);
		for (size_t i = 0; i < nr; i++) {
			if (quiet) {
				begin(r, &due[i]);
				serve_request(&r->serve, &due[i]);
			} else {
				if (r->witness)
					see_request(r, &due[i]);
				catch_up(r, &due[i]);
				run(r, &due[i]);
				if (r->config.explains)
					compare_page(r, &due[i]);
				r->model->pcp_locked = r->model->reclaimed = false;
				r->model->told_drain = -1;
				r->model->landed_frame = NO_FRAME;
				r->model->put_off = false;
			}
			if (next[i].frame != NO_FRAME)
				__builtin_prefetch(&r->serve.map[next[i].frame]);
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
	for (int i = 0; i < NR_SERIES && !ret; i++)
		ret = output_error(r->series[i], err);
	if (!ret)
		ret = output_error(r->event_count, err);
	for (int i = 0; i < NR_SURVEY && !ret; i++)
		ret = output_error(r->survey[i], err);
	for (int i = 0; i < NR_END && !ret; i++)
		ret = output_error(r->end[i], err);
	if (!ret && r->start.feedback.reclaim_rows)
		ret = output_error(r->start.feedback.reclaim_rows, err);
	if (!ret && r->start.feedback.compaction_rows)
		ret = output_error(r->start.feedback.compaction_rows, err);
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
	int ret = table_read(&event_table, schema, array, &columns, &nr, err);

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
	if (r->model->feedback)
		feedback_finish(&r->start.feedback, r->requests.last_ts);
	if (r->model->lock_queues)
		lock_queues_finish(r->model->lock_queues);
	if (r->interval_end)
		end_interval(r, r->requests.last_ts + 1);
	if (r->witness)
		witness_end(r->witness, r->model);
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
	for (int i = 0; i < NR_SERIES && !batch; i++)
		batch = output_pop(r->series[i], r->finished);
	if (!batch)
		batch = output_pop(r->event_count, r->finished);
	for (int i = 0; i < NR_SURVEY && !batch; i++)
		batch = output_pop(r->survey[i], r->finished);
	if (!batch && r->start.feedback.reclaim_rows)
		batch = output_pop(r->start.feedback.reclaim_rows, r->finished);
	if (!batch && r->start.feedback.compaction_rows)
		batch = output_pop(r->start.feedback.compaction_rows, r->finished);
	for (int i = 0; i < NR_END && !batch; i++)
		batch = output_pop(r->end[i], r->finished);
	return batch;
}

const struct totals *replay_totals(const struct replay *r)
{
	return &r->totals;
}

const struct wrong_page *replay_wrong_page(const struct replay *r)
{
	return &r->wrong_page;
}

const struct witness *replay_witness(const struct replay *r)
{
	return r->witness;
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

// SPDX-License-Identifier: Apache-2.0
#include "validate.h"

#include "model/clock.h"
#include "model/memory.h"
#include "model/model_check.h"
#include "predict.h"
#include "run/fragmentation_sample.h"

#include <errno.h>
#include <stdlib.h>

enum { OTHER_ROWS = 1 << 12 };

/*
 * Whether a block was claimed: taken from the record, because the deciding pages are not recorded.
 */
static bool recorded_claim(struct policy *self, const struct request *rq, const struct claim *claim)
{
	const struct validate *v = self->state;

	return v->extfrag && v->extfrag->owner && v->extfrag->fallback_order == claim->chunk_order;
}

static const struct policy_ops claim_as_recorded_ops = {.name = "record", .claim = recorded_claim};

int validate_new(struct validate **out, const struct validate_config *config, struct error *err)
{
	struct validate *v = calloc(1, sizeof(*v));
	int ret;

	*out = NULL;
	if (!v)
		return fail(err, ENOMEM, "no memory for a validation");
	v->config = *config;
	v->totals.anomalies = v->run.nr_anomalies;
	ret = run_init(&v->run, &config->run, err);
	ret = ret ?: run_output(&v->run, &v->score.inferred, &inferred_table, OTHER_ROWS, err);
	ret = ret ?: run_output(&v->run, &v->preference, &preference_table, OTHER_ROWS, err);
	ret = ret ?: run_output(&v->run, &v->score.block_mix, &block_mix_table, OTHER_ROWS, err);
	ret = ret ?: run_output(&v->run, &v->score.use, &recorded_use_table, 1, err);
	if (ret) {
		validate_free(v);
		return ret;
	}
	v->claim_as_recorded = (struct policy){.ops = &claim_as_recorded_ops, .state = v};
	v->run.policies->owner.claim = &v->claim_as_recorded;
	*out = v;
	return 0;
}

void validate_free(struct validate *v)
{
	if (!v)
		return;
	run_free(&v->run);
	free(v);
}

int validate_load(struct validate *v, const char *table, const struct ArrowSchema *schema,
		  const struct ArrowArray *array, struct error *err)
{
	return run_load(&v->run, table, schema, array, err);
}

static void new_arrays(struct validate *v)
{
	const struct model *m = v->m;
	size_t cpus = (size_t)m->nr_cpus, pcps = (size_t)m->nr_zones * cpus;

	v->asked = arrays_new(m->arrays, cpus, sizeof(*v->asked));
	v->rests = arrays_new(m->arrays, cpus * RESTS, sizeof(*v->rests));
	v->boundary_refills = arrays_new(m->arrays, cpus, sizeof(*v->boundary_refills));
	v->direct_frees = arrays_new(m->arrays, cpus, sizeof(*v->direct_frees));
	v->refusals = arrays_new(m->arrays, (size_t)m->nr_zones, sizeof(*v->refusals));
	v->highs = arrays_new(m->arrays, pcps, sizeof(*v->highs));
	v->gone = arrays_new(m->arrays, pcps, sizeof(*v->gone));
	if (v->score.guesses)
		v->typed = arrays_new(m->arrays, m->nr_frames >> m->pageblock_order,
				      sizeof(*v->typed));
}

static int start(struct validate *v, struct error *err)
{
	int ret;

	if (v->run.started)
		return 0;
	ret = run_start(&v->run, err);
	if (ret)
		return ret;
	v->m = v->run.model;
	window_new(&v->window, v->m->arrays, v->m->nr_cpus);
	whereabouts_new(&v->whereabouts, v->m, &v->window);
	node_preference_new(&v->node_preference, v->m);
	ret = score_new(&v->score, &v->run, &v->window, v->config.observer, err);
	if (ret)
		return ret;
	new_arrays(v);
	if (arrays_error(v->m->arrays, err))
		return -ENOMEM;
	v->events.prediction = &v->prediction;
	v->m->events = &v->events;
	v->announced.frame = NO_FRAME;
	v->run.started = true;
	return 0;
}

static void report_anomaly(struct validate *v, const struct window_event *event, uint64_t pfn,
			   int kind)
{
	const struct moment moment = {.ts = event->ts, .cpu = event->cpu};

	anomalies_add(&v->run.anomalies, &(struct anomaly){
						 .at = event->at,
						 .moment = &moment,
						 .pfn = pfn == UINT64_MAX ? NO_PFN : (int64_t)pfn,
						 .order = event->order,
						 .kind = kind,
						 .action = ANOMALY_ACTION_IGNORED,
					 });
}

static bool has_type(int kind)
{
	return kind != EVENT_KIND_FREE && kind != EVENT_KIND_FREE_BATCHED;
}

/* Fill in one row of the input; false, with an anomaly, if it cannot be one. */
static bool read_event(struct validate *v, struct window_event *event,
		       const struct event_columns *c, size_t i)
{
	uint64_t pfn = VALUE_OR(c, pfn, i, UINT64_MAX);
	const struct model *m = v->m;
	const struct zone *zone;

	*event = (struct window_event){
		.at = v->run.rows + i,
		.ts = c->ts[i],
		.frame = NO_FRAME,
		.pid = c->pid[i],
		.cpu = c->cpu[i],
		.kind = c->kind[i],
		.flags = c->flags[i],
		.order = VALUE_OR(c, page_order, i, 0),
	};
	if (event->kind >= NR_EVENT_KIND || event->cpu >= m->nr_cpus ||
	    event->order > m->max_order || event->ts >> 62 || event->ts < v->last_ts)
		goto bad;
	if (has_type(event->kind)) {
		event->migratetype = c->migratetype[i];
		if (!is_valid(c->migratetype_valid, i) || event->migratetype >= NR_MIGRATETYPE)
			goto bad;
	}
	if (event->kind == EVENT_KIND_ALLOC)
		event->gfp_flags = VALUE_OR(c, gfp_flags, i, 0);
	else if (m->record->zone_events && has_type(event->kind))
		event->gfp_flags = refill_gfp(event->migratetype, event->flags);
	if (event->kind == EVENT_KIND_ALLOC_EXTFRAG) {
		event->fallback_order = c->fallback_order[i];
		event->fallback_migratetype = c->fallback_migratetype[i];
		event->owner = c->change_ownership[i];
		if (!is_valid(c->fallback_order_valid, i) || event->fallback_order > m->max_order ||
		    event->fallback_order < event->order ||
		    !is_valid(c->fallback_migratetype_valid, i) ||
		    event->fallback_migratetype >= NR_MIGRATETYPE)
			goto bad;
	}
	v->last_ts = event->ts;
	v->whereabouts.preempt_recorded |= (event->flags & CONTEXT_PREEMPT_OFF) != 0;
	if (pfn == UINT64_MAX) {
		if (event->kind != EVENT_KIND_ALLOC && event->kind != EVENT_KIND_ALLOC_ZONE_LOCKED)
			goto bad;
		if (event->kind == EVENT_KIND_ALLOC)
			failed_requests_add(&v->failed, v->m,
					    &(struct failed_request){event->at, event->gfp_flags,
								     event->cpu, event->order});
		return false;
	}
	zone = pfn_zone(m, pfn);
	if (zone)
		event->frame = zone->base + (uint32_t)(pfn - zone->base_pfn);
	if (!zone || zone->end - event->frame < 1u << event->order ||
	    event->frame & ((1u << event->order) - 1)) {
		report_anomaly(v, event, pfn, ANOMALY_KIND_OUTSIDE_ZONES);
		return false;
	}
	return true;
bad:
	report_anomaly(v, event, pfn, ANOMALY_KIND_BAD_EVENT);
	return false;
}

static void run_reclaim_events(struct validate *v, uint64_t at)
{
	const struct reclaim_event *event;

	while ((event = reclaim_events_next(&v->run.load.reclaim_events, at))) {
		v->m->now = (struct moment){.ts = event->ts};
		if (event->kind == RECLAIM_EVENT_DIRECT_END)
			reclaim_events_direct_end(&v->run.load.reclaim_events, v->m, event);
		if (run_reclaim_event(&v->run, event) || event->kind != RECLAIM_EVENT_TICK)
			continue;
		v->m->now.cpu = event->where;
		predict_tick(v, event);
	}
}

/* A free_batched without a recorded free, or of a kernel that reports no other. */
static bool adopt_batched(struct validate *v, struct window_event *event)
{
	const struct frame *f = &v->m->frames[event->frame];

	if (event->batched)
		return true;
	if (f->state == FRAME_USED && !(event->frame & ((1u << f->order) - 1)))
		event->order = f->order;
	return f->state == FRAME_USED || f->state == FRAME_OLD;
}

/* Show an event to the observers before it runs. */
static void show_event(struct validate *v, const struct window_event *event)
{
	const struct run_observer *run = v->run.config.observer;
	const struct validate_observer *observer = v->config.observer;

	if (observer)
		observer->event(observer->self, &v->score, event);
	if (run)
		run->before(run->self, v->m, event->at, event->kind <= EVENT_KIND_FREE_BATCHED);
}

/* Return pages to the allocator, or to the compacting task that waits for them. */
static void run_event_free(struct validate *v, struct window_event *event)
{
	struct capture *capture = capture_of(v, event);
	uint32_t before = capture ? capture->frame : NO_FRAME;

	v->capture = capture;
	if (event->kind == EVENT_KIND_PCPU_DRAIN && v->m->record->zone_events)
		drain_as_recorded(v, frame_zone(v->m, event->frame), event);
	else if (event->kind == EVENT_KIND_PCPU_DRAIN)
		predict_drain(v, event);
	else if (v->m->kernel->coalesced_frees && !event->order && rule_is_on(RULE_contig_frees))
		predict_contig_free(v, event);
	else
		predict_free(v, event);
	v->capture = NULL;
	if (capture && capture->frame != before)
		captured(v, capture);
}

/* Allow searches for an event; report the first time that they were cut short. */
static void allow_search(struct validate *v, const struct window_event *event)
{
	if (!v->whereabouts.search_left && !v->searched_long) {
		v->searched_long = true;
		anomalies_add(&v->run.anomalies, &(struct anomaly){
							 .at = event->at,
							 .moment = &v->m->now,
							 .pfn = NO_PFN,
							 .kind = ANOMALY_KIND_LONG_SEARCH,
							 .action = ANOMALY_ACTION_CUT_SEARCH,
						 });
	}
	if (v->whereabouts.search_left < SEARCH_MOST)
		v->whereabouts.search_left += SEARCH_PER_EVENT;
}

static int run_event(struct validate *v, struct window_event *event, struct error *err)
{
	struct model *m = v->m;

	allow_search(v, event);
	if (v->run.config.observer)
		show_event(v, event);
	load_follow_limits(&v->run.load, event->at);
	if (v->run.load.reclaim_events.next < v->run.load.reclaim_events.nr)
		run_reclaim_events(v, event->at);
	failed_requests_run(&v->failed, m, event->at);
	follow_supply(v);
	if (v->run.load.recorded_compactions.next < v->run.load.recorded_compactions.nr &&
	    rule_is_on(RULE_compaction))
		follow_compactions(v, event->at);
	follow_list_heads(v, event->at, -1);
	if (v->run.load.reclaim_events.nr_passes)
		reclaim_events_seen(&v->run.load.reclaim_events, m, event->pid, event->ts);
	if (event->ts >= v->score.accuracy.interval_end)
		accuracy_advance(&v->score.accuracy, event->ts);
	if (v->whereabouts.remotes[event->cpu].waits)
		predict_waiting(v, event->cpu);
	if (v->whereabouts.late_frees.next <= event->at)
		join_late(v, event);
	m->now = (struct moment){event->ts, event->pid, event->cpu, event->flags};
	if (v->run.load.stamps.nr)
		follow_stamps(v, event);
	page_contents_event(&v->score.contents, m,
			    event_frees(m, event) ? EVENT_KIND_FREE : event->kind, event->frame,
			    event->order, event->migratetype);
	node_preference_see(&v->node_preference, m, event);
	if (!m->record->zone_events)
		recorded_use_see(&v->score.recorded_use, m, &v->run.load.reclaim_events, event);
	if (event->kind == EVENT_KIND_ALLOC)
		predict_alloc(v, event);
	else if (event->taken)
		return 0;
	else if (event->kind == EVENT_KIND_FREE && !event->batched)
		run_event_free(v, event);
	else if (event->kind == EVENT_KIND_FREE_BATCHED && adopt_batched(v, event))
		run_event_free(v, event);
	else if (event->kind == EVENT_KIND_PCPU_DRAIN)
		run_event_free(v, event);
	else if (is_captured(v, event))
		predict_capture(v, event);
	else if (event->kind >= EVENT_KIND_ALLOC_ZONE_LOCKED && m->record->zone_events)
		predict_boundary_refill(v, event);
	else if (event->kind >= EVENT_KIND_ALLOC_ZONE_LOCKED)
		predict_refill(v, event);
	if (v->config.checks == CHECKS_FULL) {
		const char *wrong = model_check(m);

		if (wrong)
			return fail(err, EUCLEAN, "after event %llu: %s",
				    (unsigned long long)event->at, wrong);
	}
	return 0;
}

/* Prefetch the memory that an event will need. */
static void prefetch(const struct validate *v, uint64_t number)
{
	frame_nr frame = window_at(&v->window, number)->frame;

	__builtin_prefetch(&v->m->frames[frame], 1);
	__builtin_prefetch(frame_block(v->m, frame));
	__builtin_prefetch(&v->whereabouts.pushed[frame], 1);
	__builtin_prefetch(&v->score.named[frame], 1);
	__builtin_prefetch(&v->score.contents.pages[frame], 1);
	__builtin_prefetch(&v->score.contents.blocks[frame >> v->m->pageblock_order], 1);
	window_prefetch(&v->window, number);
}

static int run_oldest(struct validate *v, struct error *err)
{
	enum { AHEAD = 16, FAR_AHEAD = 2 * AHEAD };
	struct event_window *s = &v->window;
	uint64_t interval = v->score.accuracy.interval_end;
	const char *wrong;
	int ret;

	__builtin_prefetch(window_at(s, s->done + FAR_AHEAD));
	if (s->arrived - s->done > AHEAD)
		prefetch(v, s->done + AHEAD);
	ret = run_event(v, window_at(s, s->done), err);
	note_event(&v->score, window_at(s, s->done));
	v->whereabouts.ran[window_at(s, s->done)->cpu] = window_at(s, s->done)->at;
	if (v->run.load.stamps.nr)
		stamps_ran(&v->run.load.stamps, window_at(s, s->done)->cpu,
			   window_at(s, s->done)->at);
	window_run(s);
	if (ret || v->config.checks == CHECKS_OFF || interval == v->score.accuracy.interval_end)
		return ret;
	wrong = model_check(v->m);
	return wrong ? fail(err, EUCLEAN, "before event %llu: %s",
			    (unsigned long long)window_at(s, s->done - 1)->at, wrong)
		     : 0;
}

/*
 * If the snapshot guessed the types of pageblocks, the first event that shows a type sets it before
 * use.
 */
static void learn_type(struct validate *v, const struct window_event *event)
{
	uint32_t block = event->frame >> v->m->pageblock_order;
	int type = event->migratetype;

	if (v->typed[block] || event->kind < EVENT_KIND_ALLOC_ZONE_LOCKED ||
	    !frame_zone(v->m, event->frame)->guessed)
		return;
	if (event->kind == EVENT_KIND_ALLOC_ZONE_LOCKED &&
	    v->m->kernel->zone_locked != ZONE_LOCKED_LIST)
		return;
	if (event->kind == EVENT_KIND_ALLOC_EXTFRAG)
		type = event->fallback_migratetype;
	v->typed[block] = true;
	retype_block(v->m, event->frame, type);
}

/* Add the filled events to the window, and run the ones that have waited long enough. */
static int add_events(struct validate *v, int filled, struct error *err)
{
	int ret = 0;

	window_prepare(&v->window, filled);
	while (filled-- && !ret) {
		window_add(&v->window);
		if (v->window.arrived - v->window.done == WINDOW_AHEAD)
			ret = run_oldest(v, err);
	}
	return ret;
}

static int feed_rows(void *self, const struct event_columns *c, size_t first, size_t end,
		     struct error *err)
{
	struct validate *v = self;
	int ret = 0, filled = 0;

	for (size_t i = first; i < end && !ret; i++) {
		struct window_event *event = window_slot(&v->window, filled);

		if (!read_event(v, event, c, i))
			continue;
		if (v->typed)
			learn_type(v, event);
		if (++filled < WINDOW_BATCH)
			continue;
		ret = add_events(v, filled, err);
		filled = 0;
	}
	return ret ? ret : add_events(v, filled, err);
}

int validate_feed_columns(struct validate *v, const struct event_columns *columns, size_t nr,
			  struct error *err)
{
	int ret = start(v, err);

	if (ret)
		return ret;
	if (!v->run.finished)
		ret = next_events_done(&v->whereabouts.next_events, err);
	if (!ret && !v->score.contents.pages)
		ret = page_contents_new(&v->score.contents, v->m, err);
	ret = ret ?: run_feed(&v->run, columns, nr, feed_rows, v, err);
	v->totals.events = v->run.rows;
	v->totals.loop_seconds = v->run.loop_seconds;
	return ret;
}

int validate_preview(struct validate *v, const struct ArrowSchema *schema,
		     const struct ArrowArray *array, struct error *err)
{
	struct event_columns columns;
	size_t nr;
	int ret = table_read(&event_table, schema, array, &columns, &nr, err);

	ret = ret ?: start(v, err);
	if (!ret && v->run.rows)
		return fail(err, EINVAL, "a preview of events after the first of them was fed");
	if (!ret && !v->whereabouts.next_events.bits)
		ret = next_events_new(&v->whereabouts.next_events, v->m, v->config.nr_rows, err);
	return ret ?: next_events_read(&v->whereabouts.next_events, v->m, &columns, nr, err);
}

int validate_feed(struct validate *v, const struct ArrowSchema *schema,
		  const struct ArrowArray *array, struct error *err)
{
	struct event_columns columns;
	size_t nr;
	int ret = table_read(&event_table, schema, array, &columns, &nr, err);

	return ret ? ret : validate_feed_columns(v, &columns, nr, err);
}

/* The pageblocks' contents at the end of the tape; it had events. */
static void write_contents(struct validate *v)
{
	if (!v->score.contents.pages)
		return;
	page_contents_end(&v->score.contents, v->m);
	block_mix_write(v->m, v->score.contents.blocks, v->score.block_mix, v->last_ts);
}

int validate_finish(struct validate *v, struct error *err)
{
	double begin = cpu_seconds();
	int ret = start(v, err);

	if (ret)
		return ret;
	if (!v->run.finished) {
		while (v->window.done < v->window.arrived && !ret)
			ret = run_oldest(v, err);
		if (ret)
			return ret;
		for (int i = 0; i < MAX_PENDING_MISSES; i++)
			confirm_miss(&v->score, &v->score.pending_misses[i]);
		accuracy_finish(&v->score.accuracy);
		node_preference_write(&v->node_preference, v->preference);
		write_contents(v);
		recorded_use_write(&v->score.recorded_use, v->score.use, v->last_ts);
		v->totals.accuracy = v->score.accuracy.total;
		v->totals.alloc_inferred = v->score.alloc_inferred;
	}
	ret = run_finish(&v->run, err);
	v->totals.loop_seconds += cpu_seconds() - begin;
	return ret;
}

int validate_compare_end(struct validate *v, const char *table, const struct ArrowSchema *schema,
			 const struct ArrowArray *array, struct error *err)
{
	if (!v->run.finished)
		return fail(err, EINVAL, "the end's rows of %s before the end", table);
	return end_state_diff_compare(&v->score.end_state_diff, v->m, table, schema, array, err);
}

struct batch *validate_read(struct validate *v)
{
	return run_read(&v->run);
}

const struct validate_totals *validate_totals(const struct validate *v)
{
	return &v->totals;
}

const struct divergence *validate_divergence(const struct validate *v)
{
	return &v->score.divergence;
}

const struct end_state_diff *validate_end_state_diff(const struct validate *v)
{
	return &v->score.end_state_diff;
}

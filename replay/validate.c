// SPDX-License-Identifier: Apache-2.0
#include "validate.h"

#include "clock.h"
#include "memory.h"
#include "passes.h"
#include "validate_run.h"
#include "zone.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	OTHER_ROWS = 1 << 12,
	ANOMALY_ROWS = 1 << 20, /* rows written; all are counted */
};
#define MIN_INTERVAL_NS 1000000ull

/* Whether a block was claimed: as recorded, for the pages it depends on are not. */
static bool recorded_claim(struct policy *self, const struct request *rq, const struct claim *claim)
{
	const struct validate *v = self->state;

	(void)rq;
	return v->extfrag && v->extfrag->owner && v->extfrag->fallback_order == claim->chunk_order;
}

static const struct policy_ops oracle_ops = {.name = "record", .claim = recorded_claim};

int validate_new(struct validate **out, const struct validate_config *config, struct error *err)
{
	struct validate *v = calloc(1, sizeof(*v));
	int ret;

	*out = NULL;
	if (!v)
		return fail(err, ENOMEM, "no memory for a validation");
	v->config = *config;
	if (config->interval_ns < MIN_INTERVAL_NS || config->interval_ns >> 62) {
		ret = fail(err, EINVAL, "an interval of %llu ns",
			   (unsigned long long)config->interval_ns);
		goto failed;
	}
	ret = policy_stack_new(&v->policies, err);
	for (int i = 0; i < config->nr_policies && !ret; i++)
		ret = policy_stack_add(v->policies, config->policies[i], err);
	if (!ret)
		ret = output_new(&v->anomaly, &anomaly_table, OTHER_ROWS, err);
	if (!ret)
		ret = output_new(&v->untold, &untold_table, OTHER_ROWS, err);
	if (!ret)
		ret = output_new(&v->preference, &preference_table, OTHER_ROWS, err);
	if (ret)
		goto failed;
	v->oracle = (struct policy){.ops = &oracle_ops, .state = v};
	v->policies->owner.claim = &v->oracle;
	v->start = (struct start){
		.kernel = *config->kernel,
		.recorded = config->kernel,
		.machine = config->machine,
		.policies = v->policies,
		.first = config->nr_spans ? config->spans[0].first : 0,
	};
	policy_stack_edit(v->policies, &v->start.kernel);
	*out = v;
	return 0;
failed:
	validate_free(v);
	return ret;
}

void validate_free(struct validate *v)
{
	if (!v)
		return;
	steps_free(&v->steps);
	witness_free(v->witness);
	fates_free(&v->fates);
	lru_free(&v->lru);
	if (v->pushed)
		memory_free(v->pushed, v->m->nr_frames * sizeof(*v->pushed));
	score_free(&v->score);
	output_free(v->anomaly);
	output_free(v->untold);
	output_free(v->preference);
	prefer_free(&v->prefer);
	start_free(&v->start);
	policy_stack_free(v->policies);
	free(v->holders);
	free(v->remotes);
	free(v->asked);
	free(v->depths);
	free(v->ran);
	free(v->highs);
	free(v->guesses);
	free(v->interrupting);
	free(v->typed);
	free(v->doubts);
	free(v);
}

int validate_load(struct validate *v, const char *table, const struct ArrowSchema *schema,
		  const struct ArrowArray *array, struct error *err)
{
	if (v->started)
		return fail(err, EINVAL, "rows of %s after the first event", table);
	return start_load(&v->start, table, schema, array, err);
}

/* Mark the free blocks that a guess put on their lists. */
static int mark_guesses(struct validate *v, struct error *err)
{
	const struct model *m = v->m;
	bool guessed = false;

	for (int i = 0; i < m->nr_zones; i++)
		guessed |= m->zones[i].guessed;
	if (!guessed)
		return 0;
	v->guesses = calloc(m->nr_frames / 64 + 1, sizeof(*v->guesses));
	v->typed = calloc(m->nr_frames >> m->pageblock_order, sizeof(*v->typed));
	if (!v->guesses || !v->typed)
		return fail(err, ENOMEM, "no memory for %u page frames", m->nr_frames);
	for (uint32_t head = 0; head < m->nr_frames; head += 1u << m->frames[head].order)
		if (m->frames[head].state == FRAME_FREE && frame_zone(m, head)->guessed)
			v->guesses[head / 64] |= 1ull << head % 64;
	return 0;
}

static int start(struct validate *v, struct error *err)
{
	int ret;

	if (v->started)
		return 0;
	ret = start_complete(&v->start, err);
	if (ret)
		return ret;
	v->m = v->start.model;
	v->holders = calloc((size_t)v->m->nr_cpus, sizeof(*v->holders));
	v->remotes = calloc((size_t)v->m->nr_cpus, sizeof(*v->remotes));
	v->asked = calloc((size_t)v->m->nr_cpus, sizeof(*v->asked));
	v->depths = calloc((size_t)v->m->nr_cpus, sizeof(*v->depths));
	v->ran = calloc((size_t)v->m->nr_cpus, sizeof(*v->ran));
	v->highs = calloc((size_t)(v->m->nr_zones * v->m->nr_cpus), sizeof(*v->highs));
	v->pushed = memory_new(v->m->nr_frames * sizeof(*v->pushed));
	v->interrupting = calloc(v->m->nr_frames / 64 + 1, sizeof(*v->interrupting));
	if (!v->interrupting || !v->holders || !v->remotes || !v->asked || !v->depths || !v->ran ||
	    !v->highs || !v->pushed)
		return fail(err, ENOMEM, "no memory for %u page frames", v->m->nr_frames);
	ret = steps_new(&v->steps, v->m->nr_cpus, err);
	if (!ret)
		ret = score_new(&v->score, v->m, v->config.interval_ns, err);
	if (!ret)
		ret = mark_guesses(v, err);
	if (!ret)
		ret = prefer_new(&v->prefer, v->m, err);
	if (!ret && v->config.witness)
		ret = witness_new(&v->witness, v->config.witness, v->m, err);
	if (ret)
		return ret;
	v->doubts = calloc(MAX_DOUBTS, sizeof(*v->doubts));
	if (!v->doubts)
		return fail(err, ENOMEM, "no memory for %d doubts", MAX_DOUBTS);
	for (int i = 0; i < MAX_DOUBTS - 1; i++)
		v->doubts[i].next = &v->doubts[i + 1];
	v->free_doubt = v->doubts;
	v->events.told = &v->told;
	v->m->events = &v->events;
	v->announced.frame = NO_FRAME;
	v->started = true;
	return 0;
}

static void report_anomaly(struct validate *v, const struct step *step, uint64_t pfn, int kind)
{
	struct anomaly_columns *columns;
	size_t i;

	if (v->totals.anomalies[kind]++ >= ANOMALY_ROWS)
		return;
	i = output_row(v->anomaly, &columns);
	if (!columns)
		return;
	columns->at[i] = step->at;
	columns->ts[i] = step->ts;
	columns->cpu[i] = step->cpu;
	columns->kind[i] = (uint8_t)kind;
	columns->action[i] = ANOMALY_ACTION_IGNORED;
	if (pfn == UINT64_MAX)
		return;
	columns->pfn[i] = pfn;
	set_valid(columns->pfn_valid, i);
	columns->page_order[i] = step->order;
	set_valid(columns->page_order_valid, i);
}

void tell_divergence(struct validate *v, const struct miss *miss)
{
	v->divergence.known = true;
	v->divergence.miss = *miss;
	v->divergence.step = *miss->step;
	v->divergence.miss.step = &v->divergence.step;
	story_begin(v, miss);
}

void forget_divergence(struct validate *v)
{
	v->divergence.known = v->divergence.told = false;
	v->divergence.doubt = NULL;
	v->divergence.story.text[0] = 0;
}

void missed(struct validate *v, const struct miss *miss)
{
	score_miss(&v->score, miss);
	if (!v->divergence.known)
		tell_divergence(v, miss);
}

/* A request that asked for what `row` tells began with the page's node, and not its CPU's. */
static void tell_landed(struct validate *v, struct untold row, uint8_t flags)
{
	const struct step alloc = {
		.frame = row.frame,
		.gfp_flags = row.gfp_flags,
		.cpu = row.cpu,
		.flags = flags,
		.order = row.order,
		.migratetype = row.migratetype,
	};

	if (row.gfp_flags & GFP_THISNODE || prefer_node(v->m, &alloc) == v->m->cpu_nodes[alloc.cpu])
		return;
	row.kind = UNTOLD_KIND_LANDED;
	row.tells = 0;
	untold_write(v->untold, v->m, &row);
}

void tell_untold(struct validate *v, struct untold row, const struct step *alloc)
{
	bool over = v->steps.done == v->steps.arrived;
	const struct step *running = step_number(&v->steps, v->steps.done - over);

	row.at = row.at ? row.at : running->at;
	row.ts = running->ts;
	row.pid = running->pid;
	row.told_at = UINT64_MAX;
	if (alloc) {
		row.kind = row.kind ? row.kind : UNTOLD_KIND_EARLY_ALLOC;
		row.told_at = alloc->at;
		row.pid = alloc->pid;
		row.cpu = alloc->cpu;
		row.frame = alloc->frame;
		row.order = alloc->order;
		row.migratetype = alloc->migratetype;
		row.gfp_flags = alloc->gfp_flags;
	}
	if (alloc || row.kind == UNTOLD_KIND_ALLOC || row.kind == UNTOLD_KIND_REFILL)
		tell_landed(v, row, alloc ? alloc->flags : 0);
	untold_write(v->untold, v->m, &row);
}

void tell_asked(struct validate *v, const struct step *alloc)
{
	tell_landed(v,
		    (struct untold){
			    .at = alloc->at,
			    .ts = alloc->ts,
			    .pid = alloc->pid,
			    .cpu = alloc->cpu,
			    .frame = alloc->frame,
			    .order = alloc->order,
			    .migratetype = alloc->migratetype,
			    .gfp_flags = alloc->gfp_flags,
		    },
		    alloc->flags);
}

static bool has_type(int kind)
{
	return kind != EVENT_KIND_FREE && kind != EVENT_KIND_FREE_BATCHED;
}

/* Fill in one row of the input; false, with an anomaly, if it cannot be one. */
static bool read_step(struct validate *v, struct step *step, const struct event_columns *c,
		      size_t i)
{
	uint64_t pfn = is_valid(c->pfn_valid, i) ? c->pfn[i] : UINT64_MAX;
	const struct model *m = v->m;
	const struct zone *zone;

	*step = (struct step){
		.at = v->rows + i,
		.ts = c->ts[i],
		.frame = NO_FRAME,
		.pid = c->pid[i],
		.cpu = c->cpu[i],
		.kind = c->kind[i],
		.flags = c->flags[i],
		.order = is_valid(c->page_order_valid, i) ? c->page_order[i] : 0,
	};
	if (step->kind >= NR_EVENT_KIND || step->cpu >= m->nr_cpus || step->order > m->max_order ||
	    step->ts >> 62 || step->ts < v->last_ts)
		goto bad;
	if (has_type(step->kind)) {
		step->migratetype = c->migratetype[i];
		if (!is_valid(c->migratetype_valid, i) || step->migratetype >= NR_MIGRATETYPE)
			goto bad;
	}
	if (step->kind == EVENT_KIND_ALLOC)
		step->gfp_flags = is_valid(c->gfp_flags_valid, i) ? c->gfp_flags[i] : 0;
	if (step->kind == EVENT_KIND_ALLOC_EXTFRAG) {
		step->fallback_order = c->fallback_order[i];
		step->fallback_migratetype = c->fallback_migratetype[i];
		step->owner = c->change_ownership[i];
		if (!is_valid(c->fallback_order_valid, i) || step->fallback_order > m->max_order ||
		    step->fallback_order < step->order ||
		    !is_valid(c->fallback_migratetype_valid, i) ||
		    step->fallback_migratetype >= NR_MIGRATETYPE)
			goto bad;
	}
	v->last_ts = step->ts;
	v->preempt_told |= (step->flags & CONTEXT_PREEMPT_OFF) != 0;
	if (pfn == UINT64_MAX) {
		if (step->kind != EVENT_KIND_ALLOC && step->kind != EVENT_KIND_ALLOC_ZONE_LOCKED)
			goto bad;
		return false;
	}
	zone = pfn_zone(m, pfn);
	if (zone)
		step->frame = zone->base + (uint32_t)(pfn - zone->base_pfn);
	if (!zone || zone->end - step->frame < 1u << step->order ||
	    step->frame & ((1u << step->order) - 1)) {
		report_anomaly(v, step, pfn, ANOMALY_KIND_OUTSIDE_ZONES);
		return false;
	}
	return true;
bad:
	report_anomaly(v, step, pfn, ANOMALY_KIND_BAD_EVENT);
	return false;
}

static void run_asides(struct validate *v, uint64_t at)
{
	const struct aside *aside;

	while ((aside = asides_next(&v->start.asides, at))) {
		v->m->now = (struct moment){.ts = aside->ts};
		if (aside->kind == ASIDE_TICK)
			expect_tick(v, aside);
		else if (aside->kind == ASIDE_RECLAIM)
			zone_mark_tried(v->m, aside->where, aside->gfp_flags, aside->order);
		else if (aside->kind != ASIDE_RECLAIMED)
			asides_kswapd(&v->start.asides, v->m, aside);
	}
}

static void run_compactions(struct validate *v, uint64_t at)
{
	const struct compact_row *row;

	while ((row = compactions_next(&v->start.compactions, at)))
		expect_compaction(v, row);
}

/* A free_batched whose free was not seen, or of a kernel that reports no other. */
static bool adopt_batched(struct validate *v, struct step *step)
{
	const struct frame *f = &v->m->frames[step->frame];

	if (step->batched)
		return true;
	if (f->state == FRAME_USED && !(step->frame & ((1u << f->order) - 1)))
		step->order = f->order;
	return f->state == FRAME_USED || f->state == FRAME_OLD;
}

/* What the witness sees of a step before it runs. */
static void see_step(struct validate *v, const struct step *step)
{
	bool request = step->kind <= EVENT_KIND_FREE_BATCHED;

	if (step->at == v->witness->config.at)
		tell_event(v, &v->witness->event, step);
	witness_see(v->witness, v->m, step->at, request);
}

/* Pages come back to the allocator, or to the task that compacts and waits for them. */
static void run_free(struct validate *v, struct step *step)
{
	struct capture *capture = capture_of(v, step);
	uint32_t before = capture ? capture->frame : NO_FRAME;

	v->m->capture = capture;
	if (step->kind == EVENT_KIND_PCPU_DRAIN)
		expect_drain(v, step);
	else
		expect_free(v, step);
	v->m->capture = NULL;
	if (capture && capture->frame != before)
		captured(v, capture);
}

static int run_step(struct validate *v, struct step *step, struct error *err)
{
	struct model *m = v->m;

	if (v->witness)
		see_step(v, step);
	if (v->start.asides.next < v->start.asides.nr)
		run_asides(v, step->at);
	if (v->start.compactions.next < v->start.compactions.nr)
		run_compactions(v, step->at);
	if (v->start.asides.nr_passes)
		asides_seen(&v->start.asides, m, step->pid, step->ts);
	if (step->ts >= v->score.interval_end)
		score_advance(&v->score, step->ts);
	if (v->remotes[step->cpu].waits)
		expect_waiting(v, step->cpu);
	m->now = (struct moment){step->ts, step->pid, step->cpu, step->flags};
	prefer_see(&v->prefer, m, step);
	if (step->kind == EVENT_KIND_ALLOC)
		expect_alloc(v, step);
	else if (step->taken)
		return 0;
	else if (step->kind == EVENT_KIND_FREE && !step->batched)
		run_free(v, step);
	else if (step->kind == EVENT_KIND_FREE_BATCHED && adopt_batched(v, step))
		run_free(v, step);
	else if (step->kind == EVENT_KIND_PCPU_DRAIN)
		run_free(v, step);
	else if (is_captured(v, step))
		expect_capture(v, step);
	else if (step->kind >= EVENT_KIND_ALLOC_ZONE_LOCKED)
		expect_burst(v, step);
	if (v->config.checks == CHECKS_FULL) {
		const char *wrong = model_check(m);

		if (wrong)
			return fail(err, EUCLEAN, "after event %llu: %s",
				    (unsigned long long)step->at, wrong);
	}
	return 0;
}

/* Bring what a step will need into the cache. */
static void prefetch(const struct validate *v, uint64_t number)
{
	uint32_t frame = step_number(&v->steps, number)->frame;

	__builtin_prefetch(&v->m->frames[frame], 1);
	__builtin_prefetch(frame_block(v->m, frame));
	__builtin_prefetch(&v->pushed[frame], 1);
	steps_prefetch(&v->steps, number);
}

static int run_oldest(struct validate *v, struct error *err)
{
	enum { AHEAD = 16 };
	struct steps *s = &v->steps;
	uint64_t interval = v->score.interval_end;
	const char *wrong;
	int ret;

	if (s->arrived - s->done > AHEAD)
		prefetch(v, s->done + AHEAD);
	ret = run_step(v, step_number(s, s->done), err);
	v->ran[step_number(s, s->done)->cpu] = step_number(s, s->done)->at;
	steps_run(s);
	if (ret || v->config.checks == CHECKS_OFF || interval == v->score.interval_end)
		return ret;
	wrong = model_check(v->m);
	return wrong ? fail(err, EUCLEAN, "before event %llu: %s",
			    (unsigned long long)step_number(s, s->done - 1)->at, wrong)
		     : 0;
}

/*
 * Where the snapshot could only guess the pageblocks' types, the first event that shows one
 * tells it, before it is needed.
 */
static void learn_type(struct validate *v, const struct step *step)
{
	uint32_t block = step->frame >> v->m->pageblock_order;
	int type = step->migratetype;

	if (v->typed[block] || step->kind < EVENT_KIND_ALLOC_ZONE_LOCKED ||
	    !frame_zone(v->m, step->frame)->guessed)
		return;
	if (step->kind == EVENT_KIND_ALLOC_ZONE_LOCKED &&
	    v->m->kernel->zone_locked != ZONE_LOCKED_LIST)
		return;
	if (step->kind == EVENT_KIND_ALLOC_EXTFRAG)
		type = step->fallback_migratetype;
	v->typed[block] = true;
	retype_block(v->m, step->frame, type);
}

/* Steps that are filled in arrive; those that have waited long enough run. */
static int add_steps(struct validate *v, int filled, struct error *err)
{
	int ret = 0;

	steps_prepare(&v->steps, filled);
	while (filled-- && !ret) {
		steps_add(&v->steps);
		if (v->steps.arrived - v->steps.done == STEPS_AHEAD)
			ret = run_oldest(v, err);
	}
	return ret;
}

static int feed_rows(struct validate *v, const struct event_columns *c, size_t first, size_t end,
		     struct error *err)
{
	int ret = 0, filled = 0;

	for (size_t i = first; i < end && !ret; i++) {
		struct step *step = steps_room(&v->steps, filled);

		if (!read_step(v, step, c, i))
			continue;
		if (v->typed)
			learn_type(v, step);
		if (++filled < STEPS_BATCH)
			continue;
		ret = add_steps(v, filled, err);
		filled = 0;
	}
	return ret ? ret : add_steps(v, filled, err);
}

static int outputs_error(const struct validate *v, struct error *err)
{
	int ret = output_error(v->anomaly, err);

	if (!ret)
		ret = output_error(v->untold, err);
	if (!ret)
		ret = output_error(v->preference, err);
	return ret ? ret : score_error(&v->score, err);
}

/* What a preview found, of which the snapshot told less. */
static void tell_lru(struct validate *v)
{
	const struct model *m = v->m;

	for (uint32_t b = 0; v->lru.pages && b < m->nr_frames >> m->pageblock_order; b++) {
		uint32_t start = b << m->pageblock_order, first = m->zones[m->blocks[b].zone].start;

		if (v->lru.pages[b] <= m->blocks[b].old_lru)
			continue;
		tell_untold(v,
			    (struct untold){
				    .at = v->start.first,
				    .kind = UNTOLD_KIND_LRU,
				    .frame = start > first ? start : first,
				    .migratetype = m->blocks[b].migratetype,
				    .tells = TELLS_PAGES,
				    .pages = v->lru.pages[b],
			    },
			    NULL);
		lru_learn(m, start, v->lru.pages[b]);
	}
	lru_free(&v->lru);
}

int validate_feed_columns(struct validate *v, const struct event_columns *columns, size_t nr,
			  struct error *err)
{
	static const struct span all = {0, UINT64_MAX};
	const struct span *spans = v->config.nr_spans ? v->config.spans : &all;
	size_t nr_spans = v->config.nr_spans ? v->config.nr_spans : 1;
	int ret = start(v, err);
	double begin;

	if (ret)
		return ret;
	if (v->finished)
		return fail(err, EINVAL, "events after the end of the tape");
	fates_done(&v->fates);
	tell_lru(v);
	begin = cpu_seconds();
	for (size_t s = 0; s < nr_spans && !ret; s++) {
		uint64_t first = spans[s].first > v->rows ? spans[s].first - v->rows : 0;
		uint64_t end = spans[s].end > v->rows ? spans[s].end - v->rows : 0;

		ret = feed_rows(v, columns, first, end < nr ? end : nr, err);
	}
	v->rows += nr;
	v->totals.events += nr;
	v->totals.loop_seconds += cpu_seconds() - begin;
	return ret ? ret : outputs_error(v, err);
}

int validate_preview(struct validate *v, const struct ArrowSchema *schema,
		     const struct ArrowArray *array, struct error *err)
{
	struct event_columns columns;
	size_t nr;
	int ret = table_read(&event_table, schema, array, &columns, &nr, err);

	if (!ret)
		ret = start(v, err);
	if (!ret && v->rows)
		return fail(err, EINVAL, "a preview of events after the first of them was fed");
	if (!ret && !v->fates.bits)
		ret = fates_new(&v->fates, v->m, v->config.nr_rows, err);
	if (!ret && !v->lru.pages)
		ret = lru_new(&v->lru, v->m, v->start.first, err);
	if (ret)
		return ret;
	fates_read(&v->fates, v->m, &columns, nr);
	lru_read(&v->lru, v->m, &columns, nr);
	return 0;
}

int validate_feed(struct validate *v, const struct ArrowSchema *schema,
		  const struct ArrowArray *array, struct error *err)
{
	struct event_columns columns;
	size_t nr;
	int ret = table_read(&event_table, schema, array, &columns, &nr, err);

	return ret ? ret : validate_feed_columns(v, &columns, nr, err);
}

int validate_finish(struct validate *v, struct error *err)
{
	int ret = start(v, err);
	double begin;

	if (ret)
		return ret;
	if (v->finished)
		return fail(err, EINVAL, "the tape is over already");
	begin = cpu_seconds();
	while (v->steps.done < v->steps.arrived && !ret)
		ret = run_oldest(v, err);
	if (ret)
		return ret;
	for (int i = 0; i < MAX_DOUBTS; i++)
		refute_doubt(v, &v->doubts[i]);
	free_unheard(v);
	if (v->witness)
		witness_end(v->witness, v->m);
	score_finish(&v->score);
	prefer_write(&v->prefer, v->preference);
	v->totals.score = v->score.total;
	v->totals.loop_seconds += cpu_seconds() - begin;
	v->finished = true;
	return outputs_error(v, err);
}

int validate_compare_end(struct validate *v, const char *table, const struct ArrowSchema *schema,
			 const struct ArrowArray *array, struct error *err)
{
	if (!v->finished)
		return fail(err, EINVAL, "the end's rows of %s before the end", table);
	return agreement_compare(&v->agreement, v->m, table, schema, array, err);
}

struct batch *validate_read(struct validate *v)
{
	struct batch *batch = output_pop(v->anomaly, v->finished);

	if (!batch)
		batch = output_pop(v->untold, v->finished);
	if (!batch)
		batch = output_pop(v->preference, v->finished);
	return batch || !v->started ? batch : score_read(&v->score, v->finished);
}

const struct validate_totals *validate_totals(const struct validate *v)
{
	return &v->totals;
}

const struct divergence *validate_divergence(const struct validate *v)
{
	return &v->divergence;
}

const struct agreement *validate_agreement(const struct validate *v)
{
	return &v->agreement;
}

const struct witness *validate_witness(const struct validate *v)
{
	return v->witness;
}

struct model *validate_model(struct validate *v)
{
	return v->start.model;
}

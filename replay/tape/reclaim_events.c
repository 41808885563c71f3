// SPDX-License-Identifier: Apache-2.0
#include "reclaim_events.h"

#include "model/memory.h"
#include "model/owed.h"
#include "model/vmstat_diff.h"
#include "model/watermark.h"

#include <errno.h>

/* Before it sleeps, kswapd naps so long (HZ / 10 in kswapd_try_to_sleep); then it can be woken. */
#define NAP_NS        100000000ull
/* A boost waits so long for a recorded pass: one may begin after a nap, and wait for its CPU. */
#define BOOST_WAIT_NS (2 * NAP_NS)

/* A pass of kswapd ends this long after the last event of its task. */
static uint64_t quiet_ns(const struct reclaim_events *a)
{
	return a->passes_traced ? 50000 : 1000000;
}

int reclaim_events_new(struct reclaim_events *a, const struct model *m, struct error *err)
{
	a->arrays = m->arrays;
	a->kswapds = arrays_new(m->arrays, (size_t)m->nr_nodes, sizeof(*a->kswapds));
	if (!a->kswapds)
		return arrays_error(m->arrays, err);
	for (int node = 0; node < m->nr_nodes; node++)
		if (node_is_hopeless(m, node))
			a->kswapds[node].failures = KSWAPD_MAX_FAILURES;
	for (int i = 0; i < m->nr_zones; i++)
		if (m->zones[i].reclaim_active)
			a->kswapds[tape_node(m, m->zones[i].node)].runs = true;
	return 0;
}

static int add(struct reclaim_events *a, const struct reclaim_event *reclaim_event,
	       struct error *err)
{
	if (a->nr && reclaim_event->at < a->rows[a->nr - 1].at)
		return fail(err, EINVAL, "reclaim: row %zu goes back from event %llu to %llu",
			    a->nr, (unsigned long long)a->rows[a->nr - 1].at,
			    (unsigned long long)reclaim_event->at);
	if (grow(a->arrays, &a->rows, &a->room, a->nr + 1, sizeof(*a->rows), err))
		return -ENOMEM;
	a->rows[a->nr++] = *reclaim_event;
	return 0;
}

/* The node whose kswapd a task is, or -1. */
static int kswapd_node(const struct reclaim_events *a, const struct model *m, int32_t pid)
{
	for (int node = 0; node < m->nr_nodes; node++)
		if (a->kswapds[node].known && a->kswapds[node].pid == pid)
			return node;
	return -1;
}

/* The node of a row about kswapd, or -1. */
static int row_node(const struct model *m, const struct reclaim_columns *columns, size_t i)
{
	if (!is_valid(columns->node_valid, i) || columns->node[i] < 0 ||
	    columns->node[i] >= m->nr_nodes)
		return -1;
	return columns->node[i];
}

/* The pass that runs at the start of the tape ends before the row just added. */
static void end_first_pass(struct reclaim_events *a, struct kswapd_pass *kswapd,
			   const struct reclaim_event *end)
{
	uint64_t nap = end->sleeps ? NAP_NS : 0;

	kswapd->until = kswapd->nap = end->ts > nap ? end->ts - nap : 1;
	kswapd->awake = true;
	a->nr_passes++;
}

/* If the row just added is of a kswapd, its pass lasts at least until then. */
static void span_pass(struct reclaim_events *a, const struct reclaim_event *reclaim_event)
{
	struct kswapd_pass *kswapd;

	if (reclaim_event->kind < RECLAIM_EVENT_KSWAPD_BEGIN)
		return;
	kswapd = &a->kswapds[reclaim_event->where];
	if (reclaim_event->kind == RECLAIM_EVENT_KSWAPD_BEGIN) {
		kswapd->begun = a->nr;
		if (kswapd->called && kswapd->called <= reclaim_event->ts) {
			a->times.waits += reclaim_event->ts - kswapd->called;
			a->times.nr_calls++;
		}
		kswapd->called = 0;
		a->times.nr_passes++;
		a->times.lengths += quiet_ns(a);
	} else if (reclaim_event->kind == RECLAIM_EVENT_KSWAPD_END) {
		kswapd->begun = 0;
		if (kswapd->runs)
			end_first_pass(a, kswapd, reclaim_event);
		if (!reclaim_event->sleeps && !kswapd->called)
			kswapd->called = reclaim_event->ts;
	} else if (kswapd->begun) {
		struct reclaim_event *begin = &a->rows[kswapd->begun - 1];
		uint64_t since = begin->last ? begin->last : begin->ts;

		a->times.lengths += reclaim_event->ts > since ? reclaim_event->ts - since : 0;
		begin->last = reclaim_event->ts;
	}
	kswapd->runs &= reclaim_event->kind == RECLAIM_EVENT_KSWAPD_SEEN;
	a->passes_traced |= reclaim_event->kind == RECLAIM_EVENT_KSWAPD_SEEN;
}

static struct reclaiming *find_task(struct reclaiming *tasks, int nr, int32_t pid)
{
	for (int i = 0; i < nr; i++)
		if (tasks[i].pid == pid)
			return &tasks[i];
	return NULL;
}

static void begin_reclaim(struct reclaim_events *a, int32_t pid, uint8_t order, bool below_min)
{
	struct reclaiming *task = find_task(a->reclaiming, a->nr_reclaiming, pid);

	if (!task && a->nr_reclaiming < RECLAIMING_MAX)
		task = &a->reclaiming[a->nr_reclaiming++];
	if (task)
		*task = (struct reclaiming){pid, order, below_min};
}

/* At the end of a task's direct reclaim: its request. */
static struct reclaiming end_reclaim(struct reclaim_events *a, int32_t pid)
{
	struct reclaiming *task = find_task(a->reclaiming, a->nr_reclaiming, pid);
	struct reclaiming found = {.pid = pid};

	if (!task)
		return found;
	found = *task;
	*task = a->reclaiming[--a->nr_reclaiming];
	return found;
}

/* A row as an event: its node, or its CPU for a tick and a direct reclaim; -1: it is none. */
static int read_row(struct reclaim_events *a, struct model *m,
		    const struct reclaim_columns *columns, size_t i, struct reclaim_event *event)
{
	uint16_t cpu = columns->cpu[i];
	int node = row_node(m, columns, i);

	*event = (struct reclaim_event){
		.at = columns->at[i], .ts = columns->ts[i], .pid = columns->pid[i]};
	switch (columns->kind[i]) {
	case RECLAIM_KIND_KSWAPD_WAKE:
		event->kind = RECLAIM_EVENT_KSWAPD_BEGIN;
		event->class_zone = VALUE_OR(columns, zone, i, ZONE_MOVABLE);
		if (node < 0)
			return -1;
		a->kswapds[node].known = true;
		a->kswapds[node].pid = event->pid;
		m->record->boost_acts = true;
		return node;
	case RECLAIM_KIND_WAKEUP_KSWAPD: /* the event fires only if the task waits */
	case RECLAIM_KIND_KSWAPD_SLEEP:
		event->kind = RECLAIM_EVENT_KSWAPD_END;
		event->sleeps = columns->kind[i] == RECLAIM_KIND_KSWAPD_SLEEP;
		m->record->boost_acts |= event->sleeps;
		return node;
	case RECLAIM_KIND_VMSTAT_UPDATE:
		if (cpu >= m->nr_cpus)
			return -1;
		event->kind = RECLAIM_EVENT_TICK;
		a->ticks = true;
		return cpu;
	case RECLAIM_KIND_DIRECT_RECLAIM_BEGIN:
		if (cpu >= m->nr_cpus || !is_valid(columns->page_order_valid, i) ||
		    !is_valid(columns->gfp_flags_valid, i) || columns->page_order[i] < 0 ||
		    columns->page_order[i] > m->max_order)
			return -1;
		event->kind = RECLAIM_EVENT_DIRECT_BEGIN;
		event->order = (uint8_t)columns->page_order[i];
		event->gfp_flags = columns->gfp_flags[i];
		begin_reclaim(a, event->pid, event->order, false);
		a->direct_recorded = true;
		return cpu;
	case RECLAIM_KIND_DIRECT_RECLAIM_END:
		event->kind = RECLAIM_EVENT_DIRECT_END;
		event->order = end_reclaim(a, event->pid).order;
		event->progress = VALUE_OR(columns, nr_reclaimed, i, 0);
		return cpu;
	default: /* any other row of a kswapd's task prolongs its pass */
		event->kind = RECLAIM_EVENT_KSWAPD_SEEN;
		return kswapd_node(a, m, event->pid);
	}
}

int reclaim_events_load(struct reclaim_events *a, struct model *m,
			const struct reclaim_columns *columns, size_t rows, uint64_t first,
			struct error *err)
{
	for (size_t i = 0; i < rows; i++) {
		struct reclaim_event event;
		int where = read_row(a, m, columns, i, &event), ret;

		if (where < 0 || event.at < first)
			continue;
		event.where = (uint16_t)where;
		ret = add(a, &event, err);
		if (ret)
			return ret;
		span_pass(a, &event);
	}
	return 0;
}

/* Whether a zone of the node is balanced for single pages of the class of kswapd's last pass. */
static bool is_balanced(const struct model *m, int node, int class_zone)
{
	for (int i = 0; i < m->nr_zones; i++) {
		const struct zone *zone = &m->zones[i];

		if (tape_node(m, zone->node) == node && zone->managed && zone->type <= class_zone &&
		    zone_balanced(m, zone, 0, class_zone))
			return true;
	}
	return false;
}

/* Pages of the node were reclaimed: shrink_node, and since 7.0 kswapd_try_clear_hopeless. */
static void forget_failures(const struct model *m, struct kswapd_pass *kswapd, int node)
{
	if (m->kernel->kswapd_hopeless == KSWAPD_HOPELESS_PROGRESS ||
	    is_balanced(m, node, kswapd->class_zone))
		kswapd->failures = 0;
}

static void end_pass(struct reclaim_events *a, struct model *m, int node)
{
	struct kswapd_pass *kswapd = &a->kswapds[node];

	if (!kswapd->until)
		return;
	kswapd->until = 0;
	a->nr_passes--;
	if (kswapd->freed)
		forget_failures(m, kswapd, node);
	else if (m->kernel->kswapd_hopeless != KSWAPD_HOPELESS_BOOSTLESS || !kswapd->for_boost)
		kswapd->failures++;
	kswapd_end(m, node);
}

static void prolong(const struct reclaim_events *a, struct kswapd_pass *kswapd, uint64_t seen)
{
	if (kswapd->until && kswapd->until < seen + quiet_ns(a))
		kswapd->until = seen + quiet_ns(a);
}

/* The model's own pass on a node ends, or is not needed any more. */
static void end_own_pass(struct reclaim_events *a, struct model *m, int node)
{
	struct kswapd_pass *kswapd = &a->kswapds[node];

	if (!kswapd->own_end)
		return;
	if (!kswapd->own_begin)
		kswapd_end(m, node);
	kswapd->own_begin = kswapd->own_end = 0;
	a->nr_own_passes--;
}

/* Whether a recorded pass of a node's kswapd begins by `ts`. */
static bool begins_by(const struct reclaim_events *a, int node, uint64_t ts)
{
	for (size_t i = a->next; i < a->nr && a->rows[i].ts <= ts; i++)
		if (a->rows[i].kind == RECLAIM_EVENT_KSWAPD_BEGIN && a->rows[i].where == node)
			return true;
	return false;
}

/*
 * From when a call wakes the node's kswapd, whose pass begins: from the nap before its sleep on. 0:
 * always, as no row shows its sleep; UINT64_MAX: never before its next pass begins.
 */
static uint64_t nap_begin(const struct reclaim_events *a, int node)
{
	for (size_t i = a->next; i < a->nr; i++)
		if (a->rows[i].where == node && a->rows[i].kind == RECLAIM_EVENT_KSWAPD_END)
			return a->rows[i].ts > NAP_NS ? a->rows[i].ts - NAP_NS : 0;
		else if (a->rows[i].where == node && a->rows[i].kind == RECLAIM_EVENT_KSWAPD_BEGIN)
			return UINT64_MAX;
	return 0;
}

static bool is_boosted(const struct model *m, int node)
{
	for (int i = 0; i < m->nr_zones; i++)
		if (tape_node(m, m->zones[i].node) == node && m->zones[i].boost)
			return true;
	return false;
}

/*
 * Whether a boosted node keeps its kswapd awake: no zone up to that of its last pass is balanced
 * for single pages of that class (prepare_kswapd_sleep, 5.10 to 7.2).
 */
static bool is_unbalanced(const struct model *m, int node, int class_zone)
{
	return is_boosted(m, node) && !is_balanced(m, node, class_zone);
}

static uint64_t mean(uint64_t sum, uint64_t nr)
{
	return nr ? sum / nr : 0;
}

static void plan_own_pass(struct reclaim_events *a, int node, uint64_t ts)
{
	struct kswapd_pass *kswapd = &a->kswapds[node];
	uint64_t from = kswapd->until > ts ? kswapd->until : ts;

	if (kswapd->failures >= KSWAPD_MAX_FAILURES || kswapd->own_end ||
	    begins_by(a, node, from + BOOST_WAIT_NS))
		return;
	if (kswapd->awake && ts < kswapd->nap) {
		kswapd->boosted = true;
		return;
	}
	kswapd->own_begin = from + mean(a->times.waits, a->times.nr_calls);
	kswapd->own_end = kswapd->own_begin + mean(a->times.lengths, a->times.nr_passes);
	a->nr_own_passes++;
}

/* The highest zone of a node that has a boost; for it the kernel wakes kswapd. */
static int boosted_class(const struct model *m, int node)
{
	int class_zone = 0;

	for (int i = 0; i < m->nr_zones; i++)
		if (tape_node(m, m->zones[i].node) == node && m->zones[i].boost &&
		    m->zones[i].type > class_zone)
			class_zone = m->zones[i].type;
	return class_zone;
}

/* What happened at `ts` is found at the next event, at `now`. */
static void set_moment(struct model *m, uint64_t ts, uint64_t now)
{
	if (ts > m->now.ts)
		m->now.ts = ts < now ? ts : now;
}

void reclaim_events_boosts(struct reclaim_events *a, struct model *m, uint64_t ts)
{
	for (int node = 0; node < m->nr_nodes; node++) {
		struct kswapd_pass *kswapd = &a->kswapds[node];

		if (m->record->boosted_nodes >> (node & 63) & 1)
			plan_own_pass(a, node, ts);
		if (!kswapd->own_end || ts < kswapd->own_begin)
			continue;
		if (kswapd->own_begin) {
			set_moment(m, kswapd->own_begin, ts);
			kswapd_begin(m, node, boosted_class(m, node));
		}
		kswapd->own_begin = 0;
		if (ts >= kswapd->own_end) {
			set_moment(m, kswapd->own_end, ts);
			end_own_pass(a, m, node);
		}
	}
	m->record->boosted_nodes = 0;
}

void reclaim_events_kswapd(struct reclaim_events *a, struct model *m,
			   const struct reclaim_event *reclaim_event)
{
	struct kswapd_pass *kswapd = &a->kswapds[reclaim_event->where];

	switch (reclaim_event->kind) {
	case RECLAIM_EVENT_KSWAPD_BEGIN:
		end_own_pass(a, m, reclaim_event->where);
		end_pass(a, m, reclaim_event->where);
		kswapd->awake = true;
		kswapd->class_zone = reclaim_event->class_zone;
		kswapd->nap = nap_begin(a, reclaim_event->where);
		kswapd->boosted = kswapd->freed = false;
		kswapd->for_boost = is_boosted(m, reclaim_event->where);
		if (kswapd->failures >= KSWAPD_MAX_FAILURES)
			kswapd->failures = 0; /* it was woken */
		vmstat_diff_kswapd(m, reclaim_event->where, true);
		kswapd_begin(m, reclaim_event->where, reclaim_event->class_zone);
		kswapd->until =
			(reclaim_event->last ? reclaim_event->last : m->now.ts) + quiet_ns(a);
		a->nr_passes++;
		break;
	case RECLAIM_EVENT_KSWAPD_SEEN:
		prolong(a, kswapd, m->now.ts);
		break;
	case RECLAIM_EVENT_KSWAPD_END:
		end_pass(a, m, reclaim_event->where);
		forgive_owed(m, reclaim_event->where);
		/* It sleeps if the node is balanced, and the boost stays. */
		if (kswapd->boosted && is_unbalanced(m, reclaim_event->where, kswapd->class_zone))
			m->record->boosted_nodes |= 1ull << (reclaim_event->where & 63);
		kswapd->awake = kswapd->boosted = false;
		if (reclaim_event->sleeps)
			vmstat_diff_kswapd(m, reclaim_event->where, false);
		else
			kswapd_woken(m, reclaim_event->where);
		break;
	case RECLAIM_EVENT_TICK:
	case RECLAIM_EVENT_DIRECT_BEGIN:
	case RECLAIM_EVENT_DIRECT_END:
		break;
	}
}

void reclaim_events_direct_begin(struct reclaim_events *a, const struct reclaim_event *event,
				 bool below_min)
{
	begin_reclaim(a, event->pid, event->order, below_min);
}

bool reclaim_events_reclaims(const struct reclaim_events *a, const struct model *m, int32_t pid)
{
	for (int i = 0; i < a->nr_reclaiming; i++)
		if (a->reclaiming[i].pid == pid)
			return true;
	return kswapd_node(a, m, pid) >= 0;
}

void reclaim_events_direct_end(struct reclaim_events *a, const struct model *m,
			       const struct reclaim_event *reclaim_event)
{
	struct reclaiming task = end_reclaim(a, reclaim_event->pid);
	bool before = false;

	for (int node = 0; reclaim_event->progress && node < m->nr_nodes; node++)
		forget_failures(m, &a->kswapds[node], node);
	task.order = reclaim_event->order;
	/* It may reclaim several times for its request. */
	reclaim_events_take_reclaimed(a, task.pid, task.order, &before);
	task.below_min |= before;
	if (a->nr_reclaimed < RECLAIMED_MAX)
		a->reclaimed[a->nr_reclaimed++] = task;
}

bool reclaim_events_take_reclaimed(struct reclaim_events *a, int32_t pid, int order,
				   bool *below_min)
{
	for (int i = 0; i < a->nr_reclaimed; i++) {
		if (a->reclaimed[i].pid != pid || a->reclaimed[i].order != order)
			continue;
		if (below_min)
			*below_min = a->reclaimed[i].below_min;
		a->reclaimed[i] = a->reclaimed[--a->nr_reclaimed];
		return true;
	}
	return false;
}

void reclaim_events_seen(struct reclaim_events *a, struct model *m, int32_t pid, uint64_t ts)
{
	for (int node = 0; node < m->nr_nodes; node++) {
		struct kswapd_pass *kswapd = &a->kswapds[node];

		if (kswapd->until && ts > kswapd->until) {
			set_moment(m, kswapd->until, ts);
			end_pass(a, m, node);
		} else if (kswapd->pid == pid) {
			prolong(a, kswapd, ts);
			kswapd->freed = true;
		}
	}
}

// SPDX-License-Identifier: Apache-2.0
#include "aside.h"

#include "drift.h"
#include "watermark.h"
#include "zone.h"

#include <errno.h>
#include <stdlib.h>

#define KSWAPD_QUIET_NS 1000000ull /* a pass of kswapd is over when it is not seen for so long */

int asides_new(struct asides *a, const struct model *m, struct error *err)
{
	a->kswapds = calloc((size_t)m->nr_nodes, sizeof(*a->kswapds));
	return a->kswapds ? 0 : fail(err, ENOMEM, "no memory for %d nodes", m->nr_nodes);
}

void asides_free(struct asides *a)
{
	free(a->rows);
	free(a->kswapds);
}

static int add(struct asides *a, const struct aside *aside, struct error *err)
{
	if (a->nr && aside->at < a->rows[a->nr - 1].at)
		return fail(err, EINVAL, "reclaim: row %zu goes back from event %llu to %llu",
			    a->nr, (unsigned long long)a->rows[a->nr - 1].at,
			    (unsigned long long)aside->at);
	if (a->nr == a->room) {
		size_t room = a->room ? 2 * a->room : 1024;
		struct aside *more = realloc(a->rows, room * sizeof(*more));

		if (!more)
			return fail(err, ENOMEM, "no memory for %zu rows of reclaim", room);
		a->rows = more;
		a->room = room;
	}
	a->rows[a->nr++] = *aside;
	return 0;
}

/* The node whose kswapd a task is, or -1. */
static int kswapd_node(const struct asides *a, const struct model *m, int32_t pid)
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

/* The row just added, if of a kswapd: how long the pass lasts at least. */
static void span_pass(struct asides *a, const struct aside *aside)
{
	struct kswapd_pass *kswapd;

	if (aside->kind < ASIDE_KSWAPD_BEGIN)
		return;
	kswapd = &a->kswapds[aside->where];
	if (aside->kind == ASIDE_KSWAPD_BEGIN)
		kswapd->begun = a->nr;
	else if (aside->kind == ASIDE_KSWAPD_END)
		kswapd->begun = 0;
	else if (kswapd->begun)
		a->rows[kswapd->begun - 1].last = aside->ts;
}

static struct reclaiming *find_task(struct reclaiming *tasks, int nr, int32_t pid)
{
	for (int i = 0; i < nr; i++)
		if (tasks[i].pid == pid)
			return &tasks[i];
	return NULL;
}

static void begin_reclaim(struct asides *a, int32_t pid, uint8_t order)
{
	struct reclaiming *task = find_task(a->reclaiming, a->nr_reclaiming, pid);

	if (!task && a->nr_reclaiming < RECLAIMING_MAX)
		task = &a->reclaiming[a->nr_reclaiming++];
	if (task)
		*task = (struct reclaiming){pid, order};
}

/* A task's direct reclaim is over: the order of the request for which it began. */
static uint8_t end_reclaim(struct asides *a, int32_t pid)
{
	struct reclaiming *task = find_task(a->reclaiming, a->nr_reclaiming, pid);
	uint8_t order;

	if (!task)
		return 0;
	order = task->order;
	*task = a->reclaiming[--a->nr_reclaiming];
	return order;
}

int asides_load(struct asides *a, struct model *m, const struct reclaim_columns *columns,
		size_t rows, uint64_t first, struct error *err)
{
	int ret = 0;

	for (size_t i = 0; i < rows && !ret; i++) {
		struct aside aside = {
			.at = columns->at[i], .ts = columns->ts[i], .pid = columns->pid[i]};
		int where = row_node(m, columns, i);

		switch (columns->kind[i]) {
		case RECLAIM_KIND_KSWAPD_WAKE:
			aside.kind = ASIDE_KSWAPD_BEGIN;
			aside.class_zone =
				is_valid(columns->zone_valid, i) ? columns->zone[i] : ZONE_MOVABLE;
			if (where < 0)
				continue;
			a->kswapds[where].known = true;
			a->kswapds[where].pid = columns->pid[i];
			m->boost_acts = true;
			break;
		case RECLAIM_KIND_WAKEUP_KSWAPD: /* it waits: only then the event fires */
		case RECLAIM_KIND_KSWAPD_SLEEP:
			aside.kind = ASIDE_KSWAPD_END;
			aside.sleeps = columns->kind[i] == RECLAIM_KIND_KSWAPD_SLEEP;
			break;
		case RECLAIM_KIND_VMSTAT_UPDATE:
			if (columns->cpu[i] >= m->nr_cpus)
				continue;
			aside.kind = ASIDE_TICK;
			where = columns->cpu[i];
			a->ticks = true;
			break;
		case RECLAIM_KIND_DIRECT_RECLAIM_BEGIN:
			if (columns->cpu[i] >= m->nr_cpus ||
			    !is_valid(columns->page_order_valid, i) ||
			    !is_valid(columns->gfp_flags_valid, i) || columns->page_order[i] < 0 ||
			    columns->page_order[i] > m->max_order)
				continue;
			aside.kind = ASIDE_RECLAIM;
			where = columns->cpu[i];
			aside.order = (uint8_t)columns->page_order[i];
			aside.gfp_flags = columns->gfp_flags[i];
			begin_reclaim(a, aside.pid, aside.order);
			break;
		case RECLAIM_KIND_DIRECT_RECLAIM_END:
			aside.kind = ASIDE_RECLAIMED;
			where = columns->cpu[i];
			aside.order = end_reclaim(a, columns->pid[i]);
			break;
		default:
			aside.kind = ASIDE_KSWAPD_SEEN;
			where = kswapd_node(a, m, columns->pid[i]);
		}
		if (where < 0 || aside.at < first)
			continue;
		aside.where = (uint16_t)where;
		ret = add(a, &aside, err);
		if (!ret)
			span_pass(a, &aside);
	}
	return ret;
}

static void end_pass(struct asides *a, struct model *m, int node)
{
	if (!a->kswapds[node].until)
		return;
	a->kswapds[node].until = 0;
	a->nr_passes--;
	kswapd_end(m, node);
}

static void prolong(struct kswapd_pass *kswapd, uint64_t seen)
{
	if (kswapd->until && kswapd->until < seen + KSWAPD_QUIET_NS)
		kswapd->until = seen + KSWAPD_QUIET_NS;
}

void asides_kswapd(struct asides *a, struct model *m, const struct aside *aside)
{
	struct kswapd_pass *kswapd = &a->kswapds[aside->where];

	switch (aside->kind) {
	case ASIDE_KSWAPD_BEGIN:
		end_pass(a, m, aside->where);
		drift_kswapd(m, aside->where, true);
		kswapd_begin(m, aside->where, aside->class_zone);
		kswapd->until = (aside->last ? aside->last : m->now.ts) + KSWAPD_QUIET_NS;
		a->nr_passes++;
		break;
	case ASIDE_KSWAPD_SEEN:
		prolong(kswapd, m->now.ts);
		break;
	default:
		end_pass(a, m, aside->where);
		if (aside->sleeps)
			drift_kswapd(m, aside->where, false);
	}
}

void asides_reclaimed(struct asides *a, const struct aside *aside)
{
	asides_take_reclaimed(a, aside->pid, aside->order);
	if (a->nr_reclaimed < RECLAIMED_MAX)
		a->reclaimed[a->nr_reclaimed++] = (struct reclaiming){aside->pid, aside->order};
}

bool asides_take_reclaimed(struct asides *a, int32_t pid, int order)
{
	for (int i = 0; i < a->nr_reclaimed; i++) {
		if (a->reclaimed[i].pid != pid || a->reclaimed[i].order != order)
			continue;
		a->reclaimed[i] = a->reclaimed[--a->nr_reclaimed];
		return true;
	}
	return false;
}

void asides_seen(struct asides *a, struct model *m, int32_t pid, uint64_t ts)
{
	for (int node = 0; node < m->nr_nodes; node++) {
		struct kswapd_pass *kswapd = &a->kswapds[node];

		if (kswapd->until && ts > kswapd->until)
			end_pass(a, m, node);
		else if (kswapd->pid == pid)
			prolong(kswapd, ts);
	}
}

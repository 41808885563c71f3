// SPDX-License-Identifier: Apache-2.0
#include "feedback.h"

#include "slow_path.h"
#include "watermark.h"

#include <errno.h>
#include <stdlib.h>

enum {
	CLUSTER = 32, /* SWAP_CLUSTER_MAX */
	ROWS = 1 << 14,
};
#define STALL_NS 20000000ull /* HZ/50 */
#define WAKE_NS  50000ull
#define TRIED_NS 1000000000ull /* who reclaimed longer ago did for another request */

const struct service_row *service_draw(struct service *s)
{
	unsigned bits = s->drawn++ % SERVICE_ROWS, reversed = 0;

	for (unsigned bit = 1; bit < SERVICE_ROWS; bit <<= 1) {
		reversed = reversed << 1 | (bits & 1);
		bits >>= 1;
	}
	return &s->rows[(int)reversed * s->nr / SERVICE_ROWS];
}

const struct service_row *feedback_draw_compaction(struct feedback *fb, bool direct)
{
	static const struct service_row unknown = {.moved = 2048};
	struct service *own = direct ? &fb->direct_compaction_service : &fb->compaction_service;
	struct service *other = direct ? &fb->compaction_service : &fb->direct_compaction_service;

	if (!own->nr && !other->nr)
		return &unknown;
	return service_draw(own->nr ? own : other);
}

int feedback_load_service(struct feedback *fb, const struct service_columns *c, size_t rows,
			  struct error *err)
{
	struct service *const services[] = {
		[SERVICE_WHAT_KSWAPD] = &fb->kswapd_service,
		[SERVICE_WHAT_DIRECT] = &fb->direct_service,
		[SERVICE_WHAT_COMPACTION] = &fb->compaction_service,
		[SERVICE_WHAT_WAKE] = &fb->wake_service,
		[SERVICE_WHAT_DIRECT_COMPACTION] = &fb->direct_compaction_service,
	};

	for (size_t i = 0; i < rows; i++) {
		struct service *s;

		if (c->what[i] >= NR_SERVICE_WHAT || c->ns[i] >> 62 || c->moved[i] >> 40 ||
		    c->failed[i] >> 40)
			return fail(err, EINVAL, "service: row %zu cannot be", i);
		s = services[c->what[i]];
		if (s->nr == SERVICE_ROWS)
			return fail(err, E2BIG, "service: more than %d rows of one kind",
				    SERVICE_ROWS);
		s->rows[s->nr++] = (struct service_row){c->ns[i], c->moved[i], c->failed[i]};
	}
	return 0;
}

/* Boosts call without flags; those are the model's own. */
static bool is_probe(const struct model *m, const struct reclaim_columns *c, size_t i)
{
	bool calls = c->kind[i] == RECLAIM_KIND_WAKEUP_KSWAPD;

	if ((!calls && c->kind[i] != RECLAIM_KIND_DIRECT_RECLAIM_BEGIN) ||
	    c->cpu[i] >= m->nr_cpus || !is_valid(c->page_order_valid, i) || c->page_order[i] < 0 ||
	    c->page_order[i] > m->max_order || !is_valid(c->gfp_flags_valid, i))
		return false;
	return !calls || (c->gfp_flags[i] && is_valid(c->node_valid, i) && c->node[i] >= 0 &&
			  is_valid(c->zone_valid, i) && c->zone[i] < NR_ZONE);
}

int feedback_load_probes(struct feedback *fb, const struct model *m,
			 const struct reclaim_columns *c, size_t rows, uint64_t first,
			 struct error *err)
{
	for (size_t i = 0; i < rows; i++) {
		bool calls = c->kind[i] == RECLAIM_KIND_WAKEUP_KSWAPD;

		if (c->at[i] < first || !is_probe(m, c, i))
			continue;
		if (fb->nr_probes == fb->probes_room) {
			size_t room = fb->probes_room ? 2 * fb->probes_room : 1024;
			struct probe *more = realloc(fb->probes, room * sizeof(*more));

			if (!more)
				return fail(err, ENOMEM, "no memory for %zu reclaims", room);
			fb->probes = more;
			fb->probes_room = room;
		}
		fb->probes[fb->nr_probes++] = (struct probe){
			.at = c->at[i],
			.ts = c->ts[i],
			.gfp_flags = c->gfp_flags[i],
			.pid = c->pid[i],
			.cpu = c->cpu[i],
			.node = calls ? c->node[i] : (int16_t)-1,
			.order = (uint8_t)c->page_order[i],
			.class_zone = calls ? c->zone[i] : 0,
		};
	}
	return 0;
}

int feedback_load_looks(struct feedback *fb, const struct compaction_columns *c, size_t rows,
			struct error *err)
{
	for (size_t i = 0; i < rows; i++) {
		bool looks = c->kind[i] == COMPACTION_KIND_KCOMPACTD_SLEEP;
		struct look *look = fb->looks, *end = fb->looks + fb->nr_looks;
		struct look *more;

		if (!is_valid(c->node_valid, i) ||
		    (!looks && c->kind[i] != COMPACTION_KIND_KCOMPACTD_WAKE &&
		     c->kind[i] != COMPACTION_KIND_WAKEUP_KCOMPACTD))
			continue;
		while (look < end && look->node != c->node[i])
			look++;
		if (look < end)
			continue;
		more = realloc(fb->looks, (fb->nr_looks + 1) * sizeof(*more));
		if (!more)
			return fail(err, ENOMEM, "no memory for the looks of %zu kcompactds",
				    fb->nr_looks + 1);
		fb->looks = more;
		more[fb->nr_looks++] = (struct look){c->node[i], looks ? c->ts[i] : UINT64_MAX};
	}
	return 0;
}

/* A tape without compaction events tells nothing: then it looks at once. */
static uint64_t first_look(const struct feedback *fb, int node, uint64_t ts)
{
	for (size_t i = 0; i < fb->nr_looks; i++)
		if (fb->looks[i].node == told_node(fb->model, node))
			return fb->looks[i].ts;
	return fb->nr_looks ? UINT64_MAX : ts;
}

static int daemons_new(struct feedback *fb, struct error *err)
{
	size_t nodes = (size_t)fb->model->nr_nodes;

	fb->kswapds = calloc(nodes, sizeof(*fb->kswapds));
	fb->kcompactds = calloc(nodes, sizeof(*fb->kcompactds));
	fb->zones = calloc((size_t)fb->model->nr_zones, sizeof(*fb->zones));
	fb->skipped =
		calloc(fb->model->nr_frames >> fb->model->pageblock_order, sizeof(*fb->skipped));
	if (!fb->kswapds || !fb->kcompactds || !fb->zones || !fb->skipped)
		return fail(err, ENOMEM, "no memory for the daemons of %zu nodes", nodes);
	for (int node = 0; node < (int)nodes; node++) {
		kswapd_init(&fb->kswapds[node], fb->model, node);
		kcompactd_init(&fb->kcompactds[node], fb->model, node);
	}
	return 0;
}

int feedback_start(struct feedback *fb, struct serve *serve, bool rows, struct error *err)
{
	int ret;

	fb->model = serve->model;
	fb->due = 0;
	ret = reclaim_start(&fb->reclaim, serve, err);
	if (!ret)
		ret = daemons_new(fb, err);
	if (!ret && rows)
		ret = output_new(&fb->reclaim_rows, &reclaim_table, ROWS, err);
	if (!ret && rows)
		ret = output_new(&fb->compaction_rows, &compaction_table, ROWS, err);
	if (ret)
		return ret;
	fb->model->feedback = fb;
	fb->model->boost_acts = true;
	return 0;
}

void feedback_free(struct feedback *fb)
{
	free(fb->kcompactds);
	free(fb->kswapds);
	free(fb->zones);
	free(fb->skipped);
	free(fb->looks);
	free(fb->probes);
	output_free(fb->reclaim_rows);
	output_free(fb->compaction_rows);
	reclaim_free(&fb->reclaim);
}

/* Let every daemon do what is due until `ts`, in the order of time, then of nodes. */
static void run_daemons(struct feedback *fb, uint64_t ts)
{
	struct model *m = fb->model;

	while (fb->due <= ts) {
		struct kswapd *k = &fb->kswapds[0];
		struct kcompactd *c = &fb->kcompactds[0];
		uint64_t due;

		for (int node = 1; node < m->nr_nodes; node++) {
			if (fb->kswapds[node].due < k->due)
				k = &fb->kswapds[node];
			if (fb->kcompactds[node].due < c->due)
				c = &fb->kcompactds[node];
		}
		due = k->due <= c->due ? k->due : c->due;
		fb->due = due;
		if (due > ts)
			break;
		m->now.ts = due > m->now.ts ? due : m->now.ts;
		m->now.flags = 0;
		if (k->due <= c->due) {
			m->now.cpu = k->cpu;
			m->now.pid = k->pid;
			kswapd_step(fb, k);
		} else {
			m->now.cpu = c->cpu;
			m->now.pid = 0;
			kcompactd_step(fb, c);
		}
		fb->due = 0;
	}
}

static void note_tried(struct feedback *fb, const struct probe *p)
{
	struct tried *t = fb->tried;

	while (t < fb->tried + TRIED_TASKS && (t->pid != p->pid || t->order != p->order))
		t++;
	if (t == fb->tried + TRIED_TASKS) {
		t = &fb->tried[fb->next_tried++ % TRIED_TASKS];
		*t = (struct tried){.pid = p->pid, .order = p->order};
	}
	t->ts = p->ts;
	t->times++;
}

int feedback_tried(struct feedback *fb, int order)
{
	for (struct tried *t = fb->tried; t < fb->tried + TRIED_TASKS; t++)
		if (t->pid == fb->model->now.pid && t->order == order) {
			bool recent = fb->model->now.ts <= t->ts + TRIED_NS;
			int times = recent ? t->times : 0;

			t->times = 0;
			return times;
		}
	return 0;
}

static void call(struct feedback *fb, const struct probe *p)
{
	const struct model *m = fb->model;

	for (int node = 0; node < m->nr_nodes; node++)
		if (told_node(m, node) == p->node)
			kswapd_wakeup(fb, &fb->kswapds[node], p->gfp_flags, p->order,
				      p->class_zone);
}

/* A request that had to reclaim on the record, or called a kswapd. */
static void probe(struct feedback *fb, const struct probe *p)
{
	struct model *m = fb->model;
	struct request rq = {
		.gfp_flags = p->gfp_flags,
		.order = p->order,
		.migratetype = p->gfp_flags & GFP_MOVABLE       ? MIGRATETYPE_MOVABLE
			       : p->gfp_flags & GFP_RECLAIMABLE ? MIGRATETYPE_RECLAIMABLE
								: MIGRATETYPE_UNMOVABLE,
		.class_zone = (uint8_t)gfp_class_zone(p->gfp_flags),
		.node = m->cpu_nodes[p->cpu],
	};

	m->now = (struct moment){p->ts > m->now.ts ? p->ts : m->now.ts, p->pid, p->cpu, 0};
	if (p->node >= 0)
		call(fb, p);
	else if (zone_probe(m, &rq))
		note_tried(fb, p);
}

void feedback_run(struct feedback *fb, uint64_t at, uint64_t ts)
{
	if (!fb->due) {
		/* The tape begins. */
		for (int node = 0; node < fb->model->nr_nodes; node++)
			kcompactd_begin(&fb->kcompactds[node], fb->model, ts,
					first_look(fb, node, ts));
	}
	while (fb->next_probe < fb->nr_probes && fb->probes[fb->next_probe].at <= at) {
		const struct probe *p = &fb->probes[fb->next_probe++];

		run_daemons(fb, p->ts < ts ? p->ts : ts);
		probe(fb, p);
	}
	run_daemons(fb, ts);
}

void feedback_finish(struct feedback *fb, uint64_t ts)
{
	run_daemons(fb, ts);
	reclaim_finish(&fb->reclaim);
}

void feedback_wake_all(struct feedback *fb, const struct zonelist *list, const struct request *rq)
{
	int last = -1;

	for (int i = 0; i < list->nr; i++) {
		const struct zone *zone = list->zones[i];

		if (zone->type > rq->class_zone || zone->node == last)
			continue;
		kswapd_wakeup(fb, &fb->kswapds[zone->node], rq->gfp_flags, rq->order,
			      rq->class_zone);
		last = zone->node;
	}
}

void feedback_wake_boosted(struct feedback *fb, const struct zone *zone)
{
	kswapd_wakeup(fb, &fb->kswapds[zone->node], 0, 0, zone->type);
}

bool feedback_direct(struct feedback *fb, const struct zonelist *list, const struct request *rq)
{
	int64_t freed = 0;
	int first = -1, last = -1;
	const struct service_row *row = service_draw(&fb->direct_service);
	int64_t pages = row->moved > CLUSTER ? (int64_t)row->moved : CLUSTER;
	struct counters *counters;

	for (int i = 0; i < list->nr && freed < pages; i++) {
		const struct zone *zone = list->zones[i];

		if (zone->type > rq->class_zone || zone->node == last)
			continue;
		last = zone->node;
		first = first < 0 ? last : first;
		freed += reclaim_take(&fb->reclaim, last, rq->class_zone, pages - freed);
		kswapd_overtaken(fb, &fb->kswapds[last], freed > 0);
	}
	if (first < 0)
		return false;
	counters = node_counters(fb->model, first);
	counters->direct_reclaims++;
	counters->modelled_stall_us += row->ns / 1000;
	feedback_tell(fb, &(struct told_reclaim){.kind = RECLAIM_KIND_DIRECT_RECLAIM_BEGIN,
						 .node = -1,
						 .zone = -1,
						 .order = rq->order,
						 .gfp_flags = rq->gfp_flags});
	feedback_tell(fb, &(struct told_reclaim){.kind = RECLAIM_KIND_DIRECT_RECLAIM_END,
						 .node = -1,
						 .zone = -1,
						 .order = -1,
						 .nr_reclaimed = freed,
						 .after_ns = row->ns});
	return freed > 0;
}

bool feedback_node_reclaim(struct feedback *fb, const struct zone *zone, const struct request *rq)
{
	int64_t pages = 1ll << rq->order > CLUSTER ? 1ll << rq->order : CLUSTER, freed;
	struct told_reclaim row = {
		.kind = RECLAIM_KIND_NODE_RECLAIM_BEGIN,
		.node = zone->node,
		.zone = -1,
		.order = rq->order,
		.gfp_flags = rq->gfp_flags,
	};

	feedback_tell(fb, &row);
	freed = reclaim_take(&fb->reclaim, zone->node, rq->class_zone, pages);
	row.kind = RECLAIM_KIND_NODE_RECLAIM_END;
	row.nr_reclaimed = freed;
	row.order = -1;
	feedback_tell(fb, &row);
	return freed > 0;
}

void feedback_stall(struct feedback *fb, struct zone *zone, const struct request *rq, int64_t boost)
{
	struct kswapd *k = &fb->kswapds[zone->node];
	uint64_t ns = STALL_NS;

	for (int64_t pages = 0; pages < boost; pages += 1ll << fb->model->pageblock_order)
		boost_zone(fb->model, zone, boost);
	kswapd_wakeup(fb, k, rq->gfp_flags, 0, zone->type);
	/* It ends when kswapd has made progress: a cluster, if there is any. */
	if (fb->kswapd_service.nr && reclaim_waits(&fb->reclaim, zone->node, zone->type))
		ns = feedback_wake_ns(fb) + service_draw(&fb->kswapd_service)->ns;
	node_counters(fb->model, zone->node)->modelled_stall_us +=
		(ns < STALL_NS ? ns : STALL_NS) / 1000;
	fb->stalled = true;
}

uint64_t feedback_wake_ns(struct feedback *fb)
{
	return fb->wake_service.nr ? service_draw(&fb->wake_service)->ns : WAKE_NS;
}

void feedback_wake_kcompactd(struct feedback *fb, int node, int order, int class_zone)
{
	kcompactd_wakeup(fb, &fb->kcompactds[node], order, class_zone);
}

struct counters *node_counters(const struct model *m, int node)
{
	for (int i = 0; i < m->nr_zones; i++)
		if (m->zones[i].node == node)
			return zone_counters(m, &m->zones[i]);
	return zone_counters(m, &m->zones[0]);
}

#define SET(column, value)                                                                         \
	do {                                                                                       \
		columns->column[i] = (value);                                                      \
		set_valid(columns->column##_valid, i);                                             \
	} while (0)

void feedback_tell(struct feedback *fb, const struct told_reclaim *row)
{
	const struct moment *now = &fb->model->now;
	struct reclaim_columns *columns;
	size_t i;

	if (!fb->reclaim_rows)
		return;
	i = output_row(fb->reclaim_rows, &columns);
	if (!columns)
		return;
	columns->ts[i] = now->ts + row->after_ns;
	columns->cpu[i] = now->cpu;
	columns->pid[i] = now->pid;
	columns->flags[i] = now->flags;
	columns->at[i] = fb->model->events ? fb->model->events->rows : 0;
	columns->kind[i] = (uint8_t)row->kind;
	if (row->node >= 0)
		SET(node, (int16_t)row->node);
	if (row->zone >= 0)
		SET(zone, (uint8_t)row->zone);
	if (row->order >= 0)
		SET(page_order, (int8_t)row->order);
	if (row->kind == RECLAIM_KIND_WAKEUP_KSWAPD ||
	    row->kind == RECLAIM_KIND_DIRECT_RECLAIM_BEGIN ||
	    row->kind == RECLAIM_KIND_NODE_RECLAIM_BEGIN)
		SET(gfp_flags, row->gfp_flags);
	if (row->kind == RECLAIM_KIND_DIRECT_RECLAIM_END ||
	    row->kind == RECLAIM_KIND_NODE_RECLAIM_END)
		SET(nr_reclaimed, row->nr_reclaimed);
}

void feedback_tell_compaction(struct feedback *fb, const struct told_compaction *row)
{
	const struct moment *now = &fb->model->now;
	struct compaction_columns *columns;
	size_t i;

	if (!fb->compaction_rows)
		return;
	i = output_row(fb->compaction_rows, &columns);
	if (!columns)
		return;
	columns->ts[i] = now->ts + row->after_ns;
	columns->cpu[i] = now->cpu;
	columns->pid[i] = now->pid;
	columns->flags[i] = now->flags;
	columns->at[i] = fb->model->events ? fb->model->events->rows : 0;
	columns->kind[i] = (uint8_t)row->kind;
	if (row->node >= 0)
		SET(node, (int16_t)row->node);
	if (row->zone >= 0)
		SET(zone, (uint8_t)row->zone);
	if (row->order >= 0)
		SET(page_order, (int8_t)row->order);
	if (row->priority < 0)
		return;
	SET(gfp_flags, row->gfp_flags);
	SET(priority, (int16_t)row->priority);
}

void feedback_tell_run(struct feedback *fb, const struct zone *zone, uint64_t after_ns, uint64_t ns)
{
	struct told_compaction row = {
		.kind = COMPACTION_KIND_BEGIN,
		.node = zone->node,
		.zone = zone->type,
		.order = -1,
		.priority = -1,
		.after_ns = after_ns,
	};

	feedback_tell_compaction(fb, &row);
	row.kind = COMPACTION_KIND_END;
	row.after_ns += ns;
	feedback_tell_compaction(fb, &row);
}

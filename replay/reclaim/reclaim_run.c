// SPDX-License-Identifier: Apache-2.0
#include "reclaim_run.h"

#include "model/slow_path.h"
#include "model/watermark.h"

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

const struct service_row *reclaim_run_draw_compaction(struct reclaim_run *run, bool direct)
{
	static const struct service_row unknown = {.moved = 2048};
	struct service *own = direct ? &run->direct_compaction_service : &run->compaction_service;
	struct service *other = direct ? &run->compaction_service : &run->direct_compaction_service;

	if (!own->nr && !other->nr)
		return &unknown;
	return service_draw(own->nr ? own : other);
}

/* A tape without compaction events tells nothing: then it looks at once. */
static uint64_t first_look(const struct reclaim_run *run, int node, uint64_t ts)
{
	for (size_t i = 0; i < run->nr_looks; i++)
		if (run->looks[i].node == tape_node(run->model, node))
			return run->looks[i].ts;
	return run->nr_looks ? UINT64_MAX : ts;
}

static int daemons_new(struct reclaim_run *run, struct error *err)
{
	size_t nodes = (size_t)run->model->nr_nodes;

	run->kswapds = calloc(nodes, sizeof(*run->kswapds));
	run->kcompactds = calloc(nodes, sizeof(*run->kcompactds));
	run->zones = calloc((size_t)run->model->nr_zones, sizeof(*run->zones));
	run->skipped =
		calloc(run->model->nr_frames >> run->model->pageblock_order, sizeof(*run->skipped));
	if (!run->kswapds || !run->kcompactds || !run->zones || !run->skipped)
		return fail(err, ENOMEM, "no memory for the daemons of %zu nodes", nodes);
	for (int node = 0; node < (int)nodes; node++) {
		kswapd_init(&run->kswapds[node], run->model, node);
		kcompactd_init(&run->kcompactds[node], run->model, node);
	}
	return 0;
}

void reclaim_run_free(struct reclaim_run *run)
{
	free(run->kcompactds);
	free(run->kswapds);
	free(run->zones);
	free(run->skipped);
	free(run->looks);
	free(run->probes);
	reclaim_supply_free(&run->supply);
}

/* Let every daemon do what is due until `ts`, in the order of time, then of nodes. */
static void run_daemons(struct reclaim_run *run, uint64_t ts)
{
	struct model *m = run->model;

	while (run->due <= ts) {
		struct kswapd *k = &run->kswapds[0];
		struct kcompactd *c = &run->kcompactds[0];
		uint64_t due;

		for (int node = 1; node < m->nr_nodes; node++) {
			if (run->kswapds[node].due < k->due)
				k = &run->kswapds[node];
			if (run->kcompactds[node].due < c->due)
				c = &run->kcompactds[node];
		}
		due = k->due <= c->due ? k->due : c->due;
		run->due = due;
		if (due > ts)
			break;
		m->now.ts = due > m->now.ts ? due : m->now.ts;
		m->now.flags = 0;
		if (k->due <= c->due) {
			m->now.cpu = k->cpu;
			m->now.pid = k->pid;
			kswapd_step(run, k);
		} else {
			m->now.cpu = c->cpu;
			m->now.pid = 0;
			kcompactd_step(run, c);
		}
		run->due = 0;
	}
}

static void note_tried(struct reclaim_run *run, const struct probe *p)
{
	struct tried *t = run->tried;

	while (t < run->tried + TRIED_TASKS && (t->pid != p->pid || t->order != p->order))
		t++;
	if (t == run->tried + TRIED_TASKS) {
		t = &run->tried[run->next_tried++ % TRIED_TASKS];
		*t = (struct tried){.pid = p->pid, .order = p->order};
	}
	t->ts = p->ts;
	t->times++;
}

static int tried(void *self, int order)
{
	struct reclaim_run *run = self;

	for (struct tried *t = run->tried; t < run->tried + TRIED_TASKS; t++)
		if (t->pid == run->model->now.pid && t->order == order) {
			bool recent = run->model->now.ts <= t->ts + TRIED_NS;
			int times = recent ? t->times : 0;

			t->times = 0;
			return times;
		}
	return 0;
}

static void call(struct reclaim_run *run, const struct probe *p)
{
	const struct model *m = run->model;

	for (int node = 0; node < m->nr_nodes; node++)
		if (tape_node(m, node) == p->node)
			kswapd_wakeup(run, &run->kswapds[node], p->gfp_flags, p->order,
				      p->class_zone);
}

/* A request that had to reclaim on the record, or called a kswapd. */
static void probe(struct reclaim_run *run, const struct probe *p)
{
	struct model *m = run->model;
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
		call(run, p);
	else if (zone_probe(m, &rq))
		note_tried(run, p);
}

void reclaim_run_run(struct reclaim_run *run, uint64_t at, uint64_t ts)
{
	if (!run->due) {
		/* The tape begins. */
		for (int node = 0; node < run->model->nr_nodes; node++)
			kcompactd_begin(&run->kcompactds[node], run->model, ts,
					first_look(run, node, ts));
	}
	while (run->next_probe < run->nr_probes && run->probes[run->next_probe].at <= at) {
		const struct probe *p = &run->probes[run->next_probe++];

		run_daemons(run, p->ts < ts ? p->ts : ts);
		probe(run, p);
	}
	run_daemons(run, ts);
}

void reclaim_run_finish(struct reclaim_run *run, uint64_t ts)
{
	run_daemons(run, ts);
	reclaim_supply_finish(&run->supply);
}

static void wake_all(void *self, const struct zonelist *list, const struct request *rq)
{
	struct reclaim_run *run = self;
	int last = -1;

	for (int i = 0; i < list->nr; i++) {
		const struct zone *zone = list->zones[i];

		if (zone->type > rq->class_zone || zone->node == last)
			continue;
		kswapd_wakeup(run, &run->kswapds[zone->node], rq->gfp_flags, rq->order,
			      rq->class_zone);
		last = zone->node;
	}
}

static void wake_boosted(void *self, const struct zone *zone)
{
	struct reclaim_run *run = self;
	kswapd_wakeup(run, &run->kswapds[zone->node], 0, 0, zone->type);
}

static bool direct(void *self, const struct zonelist *list, const struct request *rq)
{
	struct reclaim_run *run = self;
	int64_t freed = 0;
	int first = -1, last = -1;
	const struct service_row *row = service_draw(&run->direct_service);
	int64_t pages = row->moved > CLUSTER ? (int64_t)row->moved : CLUSTER;
	struct counters *counters;

	for (int i = 0; i < list->nr && freed < pages; i++) {
		const struct zone *zone = list->zones[i];

		if (zone->type > rq->class_zone || zone->node == last)
			continue;
		last = zone->node;
		first = first < 0 ? last : first;
		freed += reclaim_supply_take(&run->supply, last, rq->class_zone, pages - freed);
		kswapd_overtaken(run, &run->kswapds[last], freed > 0);
	}
	if (first < 0)
		return false;
	counters = node_counters(run->model, first);
	counters->direct_reclaims++;
	counters->modelled_stall_us += row->ns / 1000;
	reclaim_run_emit(run, &(struct reclaim_row){.kind = RECLAIM_KIND_DIRECT_RECLAIM_BEGIN,
						    .node = -1,
						    .zone = -1,
						    .order = rq->order,
						    .gfp_flags = rq->gfp_flags});
	reclaim_run_emit(run, &(struct reclaim_row){.kind = RECLAIM_KIND_DIRECT_RECLAIM_END,
						    .node = -1,
						    .zone = -1,
						    .order = -1,
						    .nr_reclaimed = freed,
						    .after_ns = row->ns});
	return freed > 0;
}

static bool node_reclaim(void *self, const struct zone *zone, const struct request *rq)
{
	struct reclaim_run *run = self;
	int64_t pages = 1ll << rq->order > CLUSTER ? 1ll << rq->order : CLUSTER, freed;
	struct reclaim_row row = {
		.kind = RECLAIM_KIND_NODE_RECLAIM_BEGIN,
		.node = zone->node,
		.zone = -1,
		.order = rq->order,
		.gfp_flags = rq->gfp_flags,
	};

	reclaim_run_emit(run, &row);
	freed = reclaim_supply_take(&run->supply, zone->node, rq->class_zone, pages);
	row.kind = RECLAIM_KIND_NODE_RECLAIM_END;
	row.nr_reclaimed = freed;
	row.order = -1;
	reclaim_run_emit(run, &row);
	return freed > 0;
}

static void stall(void *self, struct zone *zone, const struct request *rq, int64_t boost)
{
	struct reclaim_run *run = self;
	struct kswapd *k = &run->kswapds[zone->node];
	uint64_t ns = STALL_NS;

	if (run->stalled)
		return;
	for (int64_t pages = 0; pages < boost; pages += 1ll << run->model->pageblock_order)
		boost_zone(run->model, zone, boost);
	kswapd_wakeup(run, k, rq->gfp_flags, 0, zone->type);
	/* It ends when kswapd has made progress: a cluster, if there is any. */
	if (run->kswapd_service.nr && reclaim_supply_waits(&run->supply, zone->node, zone->type))
		ns = reclaim_run_wake_ns(run) + service_draw(&run->kswapd_service)->ns;
	node_counters(run->model, zone->node)->modelled_stall_us +=
		(ns < STALL_NS ? ns : STALL_NS) / 1000;
	run->stalled = true;
}

uint64_t reclaim_run_wake_ns(struct reclaim_run *run)
{
	return run->wake_service.nr ? service_draw(&run->wake_service)->ns : WAKE_NS;
}

void reclaim_run_wake_kcompactd(struct reclaim_run *run, int node, int order, int class_zone)
{
	kcompactd_wakeup(run, &run->kcompactds[node], order, class_zone);
}

struct counters *node_counters(const struct model *m, int node)
{
	for (int i = 0; i < m->nr_zones; i++)
		if (m->zones[i].node == node)
			return zone_counters(m, &m->zones[i]);
	return zone_counters(m, &m->zones[0]);
}

static bool stalled(void *self)
{
	struct reclaim_run *run = self;
	bool was = run->stalled;

	run->stalled = false;
	return was;
}

int reclaim_run_start(struct reclaim_run *run, struct page_map *pages, const uint64_t *row,
		      struct error *err)
{
	int ret;

	run->due = 0;
	ret = reclaim_supply_start(&run->supply, run->model, pages, row, err);
	if (!ret)
		ret = daemons_new(run, err);
	if (ret)
		return ret;
	run->ops = (struct reclaim_ops){
		.self = run,
		.wake_all = wake_all,
		.wake_boosted = wake_boosted,
		.direct = direct,
		.tried = tried,
		.compact = direct_compact,
		.compacted = direct_compacted,
		.node_reclaim = node_reclaim,
		.stall = stall,
		.stalled = stalled,
	};
	run->model->reclaim_ops = &run->ops;
	run->model->boost_acts = true;
	return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "kswapd.h"

#include "model/vmstat_diff.h"
#include "compact_model.h"
#include "reclaim_run.h"
#include "model/watermark.h"
#include "model/zone.h"

enum {
	DEF_PRIORITY = 12,
	BOOST_PRIORITY = DEF_PRIORITY - 2, /* boosts reclaim no harder than this */
	MAX_FAILURES = 16,                 /* MAX_RECLAIM_RETRIES: the node is hopeless */
	CLUSTER = 32,                      /* SWAP_CLUSTER_MAX */
};
#define NAP_NS       100000000ull
#define PREMATURE_NS 1000000000ull
#define EMPTY_NS     8000ull /* a round that finds nothing: guests pass 12 in 0.1 ms */

#define for_each_node_zone(m, zone, of_node, class_zone)                                           \
	for (struct zone * (zone) = (m)->zones; (zone) < (m)->zones + (m)->nr_zones; (zone)++)     \
		if ((zone)->node == (of_node) && (zone)->type <= (class_zone) && (zone)->managed)

void kswapd_init(struct kswapd *k, const struct model *m, int node)
{
	*k = (struct kswapd){
		.node = node,
		.due = UINT64_MAX,
		.want_zone = -1,
		.class_zone = NR_ZONE - 1,
	};
	while (k->cpu < m->nr_cpus - 1 && m->cpu_nodes[k->cpu] != node)
		k->cpu++;
	if (m->cpu_nodes[k->cpu] != node)
		k->cpu = 0;
}

bool zone_balanced(const struct model *m, const struct zone *zone, int order, int class_zone)
{
	const struct request rq = {
		.order = (uint8_t)order,
		.migratetype = MIGRATETYPE_UNMOVABLE,
		.class_zone = (uint8_t)class_zone,
	};

	return watermark_ok_of(m, zone, zone_free_for(m, zone, order), &rq,
			       zone_mark(zone, WMARK_HIGH));
}

bool kswapd_balanced(const struct model *m, int node, int order, int class_zone)
{
	bool none = true;

	for_each_node_zone(m, zone, node, class_zone)
	{
		if (zone_balanced(m, zone, order, class_zone))
			return true;
		none = false;
	}
	return none;
}

bool kswapd_may_sleep(const struct model *m, int node, int order, int class_zone)
{
	if (m->kernel->kswapd_sleep != KSWAPD_V4_10)
		return kswapd_balanced(m, node, order, class_zone);
	for_each_node_zone(m, zone, node,
			   class_zone) if (!zone_balanced(m, zone, order, class_zone)) return false;
	return true;
}

int kswapd_default_zone(const struct model *m, int last)
{
	return m->kernel->kswapd_sleep == KSWAPD_KEEPAWAKE ? last : 0;
}

static int asked_zone(const struct model *m, const struct kswapd *k)
{
	return k->want_zone < 0 ? kswapd_default_zone(m, k->class_zone) : k->want_zone;
}

static bool may_sleep(const struct model *m, const struct kswapd *k)
{
	return k->failures >= MAX_FAILURES ||
	       kswapd_may_sleep(m, k->node, k->reclaim_order, k->class_zone);
}

static void begin_pass(struct reclaim_run *run, struct kswapd *k)
{
	struct model *m = run->model;

	k->alloc_order = k->reclaim_order = k->want_order;
	k->class_zone = asked_zone(m, k);
	k->want_order = 0;
	k->want_zone = -1;
	node_counters(m, k->node)->kswapd_passes++;
	reclaim_run_emit(run, &(struct reclaim_row){.kind = RECLAIM_KIND_KSWAPD_WAKE,
						    .node = k->node,
						    .zone = k->class_zone,
						    .order = k->alloc_order});
	vmstat_diff_kswapd(m, k->node, true);
	kswapd_begin(m, k->node, k->class_zone);
	k->state = KSWAPD_BALANCING;
	k->priority = DEF_PRIORITY;
	k->reclaimed = k->boost = 0;
	k->in_round = false;
	for_each_node_zone(m, zone, k->node, k->class_zone) k->boost += zone->boost;
	k->boosted = k->boost > 0;
}

/*
 * The timer ends a nap. It leaves kswapd on its wait queue until kswapd runs, so that
 * all who call meanwhile are told, though none of them wakes it (waitqueue_active).
 */
static void time_out(struct reclaim_run *run, struct kswapd *k)
{
	k->state = KSWAPD_NAPPED;
	k->called = false;
	k->due = run->model->now.ts + reclaim_run_wake_ns(run);
}

/* kswapd_try_to_sleep, up to the nap. */
static void try_to_sleep(struct reclaim_run *run, struct kswapd *k)
{
	if (!may_sleep(run->model, k)) {
		begin_pass(run, k);
		return;
	}
	compact_model_sleeps(run, k->node);
	reclaim_run_wake_kcompactd(run, k->node, k->alloc_order, k->class_zone);
	k->state = KSWAPD_NAPPING;
	k->due = run->model->now.ts + NAP_NS;
}

/* kswapd_try_to_sleep, after the nap. */
static void end_nap(struct reclaim_run *run, struct kswapd *k)
{
	struct model *m = run->model;

	if (!may_sleep(m, k)) {
		begin_pass(run, k);
		return;
	}
	node_counters(m, k->node)->kswapd_sleeps++;
	reclaim_run_emit(run, &(struct reclaim_row){.kind = RECLAIM_KIND_KSWAPD_SLEEP,
						    .node = k->node,
						    .zone = -1,
						    .order = -1});
	vmstat_diff_kswapd(m, k->node, false);
	k->state = KSWAPD_ASLEEP;
	k->slept_at = m->now.ts;
	k->due = UINT64_MAX;
}

static void end_pass(struct reclaim_run *run, struct kswapd *k)
{
	struct model *m = run->model;
	bool reset = k->reclaim_order < k->alloc_order;

	kswapd_end(m, k->node);
	if (k->boosted)
		reclaim_run_wake_kcompactd(run, k->node, m->pageblock_order, k->class_zone);
	if (!reset) {
		k->alloc_order = k->reclaim_order = k->want_order;
		k->class_zone = asked_zone(m, k);
	}
	try_to_sleep(run, k);
}

/* A round of balance_pgdat begins, unless the pass is over: then false. */
static bool begin_round(struct reclaim_run *run, struct kswapd *k)
{
	const struct model *m = run->model;
	bool balanced = kswapd_balanced(m, k->node, k->reclaim_order, k->class_zone);
	int64_t pages = 0, most;

	if (!balanced && k->boost) {
		k->boost = 0;
		k->priority = DEF_PRIORITY;
	}
	if (balanced && !k->boost)
		return false;
	k->round_pages = 0;
	for_each_node_zone(m, zone, k->node, k->class_zone)
	{
		int64_t high = zone_mark(zone, WMARK_HIGH);

		k->round_pages += high > CLUSTER ? high : CLUSTER;
		pages += (int64_t)zone->managed;
	}
	/* A priority scans its share of the LRU lists, which are most of the memory. */
	most = pages >> k->priority;
	most = most > CLUSTER ? most : CLUSTER;
	k->left = k->round_pages < most ? k->round_pages : most;
	k->got = 0;
	k->in_round = true;
	return true;
}

/* The round is over; whether the pass goes on. */
static bool end_round(struct reclaim_run *run, struct kswapd *k)
{
	bool harder = k->got < k->round_pages && !(k->boost && k->priority == BOOST_PRIORITY);

	k->in_round = false;
	k->reclaimed += k->got;
	if (k->reclaim_order && k->reclaimed >= 2ll << k->reclaim_order) {
		k->reclaim_order = 0;
		node_counters(run->model, k->node)->order_resets++;
	}
	k->boost -= k->got < k->boost ? k->got : k->boost;
	if (k->boost && !k->got)
		return false;
	if (harder || !k->got)
		k->priority--;
	return k->priority >= 1;
}

/* How long it scanned for a cluster of pages, or one that it did not get. */
static uint64_t scan_ns(struct reclaim_run *run, const struct kswapd *k, bool got)
{
	const struct service_row *row;

	if (!got && !reclaim_supply_waits(&run->supply, k->node, k->class_zone))
		return EMPTY_NS;
	row = service_draw(&run->kswapd_service);
	if (got || !row->moved)
		return EMPTY_NS + row->ns;
	return EMPTY_NS + row->ns * row->moved / (row->moved + row->failed);
}

static void balance(struct reclaim_run *run, struct kswapd *k)
{
	struct model *m = run->model;
	int64_t cluster, got;

	if (!k->in_round && !begin_round(run, k)) {
		end_pass(run, k);
		return;
	}
	cluster = k->left < CLUSTER ? k->left : CLUSTER;
	got = reclaim_supply_take(&run->supply, k->node, k->class_zone, cluster);
	k->got += got;
	k->left -= cluster;
	k->due = m->now.ts + scan_ns(run, k, got > 0);
	if (got)
		k->failures = 0;
	if (k->left > 0 && got == cluster)
		return;
	if (!end_round(run, k)) {
		k->failures += !k->reclaimed;
		end_pass(run, k);
	}
}

void kswapd_step(struct reclaim_run *run, struct kswapd *k)
{
	k->due = run->model->now.ts;
	switch (k->state) {
	case KSWAPD_WAKING:
		begin_pass(run, k);
		break;
	case KSWAPD_BALANCING:
		balance(run, k);
		break;
	case KSWAPD_NAPPING:
		time_out(run, k);
		break;
	case KSWAPD_NAPPED:
		end_nap(run, k);
		break;
	default:
		k->due = UINT64_MAX;
	}
}

/* It sleeps, and its node is short of memory: was that within a second? */
static void note_premature(const struct model *m, struct kswapd *k)
{
	if (k->slept_at && m->now.ts <= k->slept_at + PREMATURE_NS)
		node_counters(m, k->node)->premature_sleeps++;
	k->slept_at = 0;
}

static bool is_boosted(const struct model *m, int node, int class_zone)
{
	for_each_node_zone(m, zone, node, class_zone) if (zone->boost) return true;
	return false;
}

void kswapd_wakeup(struct reclaim_run *run, struct kswapd *k, uint32_t gfp_flags, int order,
		   int class_zone)
{
	struct model *m = run->model;

	k->want_zone = k->want_zone > class_zone ? k->want_zone : class_zone;
	k->want_order = k->want_order > order ? k->want_order : order;
	if (k->state == KSWAPD_WAKING || k->state == KSWAPD_BALANCING)
		return;
	if (k->failures >= MAX_FAILURES || (kswapd_balanced(m, k->node, order, class_zone) &&
					    !is_boosted(m, k->node, class_zone))) {
		/* 5ecd9d403ad0, 4.17 */
		if (m->kernel->kcompactd_by_callers && !(gfp_flags & GFP_DIRECT_RECLAIM))
			reclaim_run_wake_kcompactd(run, k->node, order, class_zone);
		return;
	}
	reclaim_run_emit(run, &(struct reclaim_row){.kind = RECLAIM_KIND_WAKEUP_KSWAPD,
						    .node = k->node,
						    .zone = class_zone,
						    .order = order,
						    .gfp_flags = gfp_flags});
	if (k->state == KSWAPD_NAPPED && k->called)
		return;
	node_counters(m, k->node)->kswapd_wakeups++;
	k->called = true;
	if (k->state == KSWAPD_NAPPED)
		return;
	if (k->state == KSWAPD_NAPPING) {
		node_counters(m, k->node)->naps_cut++;
		/* What it slept for stays asked for. */
		k->want_order = k->want_order > k->reclaim_order ? k->want_order : k->reclaim_order;
	} else {
		note_premature(m, k);
	}
	k->state = KSWAPD_WAKING;
	k->due = m->now.ts + reclaim_run_wake_ns(run);
	reclaim_run_hurry(run, k->due);
}

void kswapd_overtaken(struct reclaim_run *run, struct kswapd *k, bool progress)
{
	if (k->state == KSWAPD_ASLEEP)
		note_premature(run->model, k);
	if (progress)
		k->failures = 0;
}

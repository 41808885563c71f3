// SPDX-License-Identifier: Apache-2.0
#include "kswapd.h"

#include "node.h"
#include "model/fragmentation.h"
#include "model/vmstat_diff.h"
#include "model/watermark.h"
#include "model/zone.h"

enum {
	DEF_PRIORITY = 12,
	BOOST_PRIORITY = DEF_PRIORITY - 2, /* boosts reclaim no harder than this */
	CLUSTER = 32,                      /* SWAP_CLUSTER_MAX */
	BATCH = 64,                        /* MIN_LRU_BATCH, of the multi-generational LRU */
	YIELD = 1024,                      /* parts of a page */
};
#define NAP_NS       100000000ull
#define PREMATURE_NS 1000000000ull
#define EMPTY_NS     8000ull /* a round that asks for no page: guests pass 12 in 0.1 ms */

#define for_each_node_zone(m, zone, of_node, class_zone)                                           \
	for (struct zone * (zone) = (m)->zones; (zone) < (m)->zones + (m)->nr_zones; (zone)++)     \
		if ((zone)->node == (of_node) && (zone)->type <= (class_zone) && (zone)->managed)

void kswapd_init(struct kswapd *k, const struct model *m, int node)
{
	*k = (struct kswapd){
		.node = node,
		.cpu = node_first_cpu(m, node),
		.due = UINT64_MAX,
		.want_zone = -1,
		.class_zone = NR_ZONE - 1,
		.failures = node_is_hopeless(m, tape_node(m, node)) ? KSWAPD_MAX_FAILURES : 0,
	};
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
	return k->failures >= KSWAPD_MAX_FAILURES ||
	       kswapd_may_sleep(m, k->node, k->reclaim_order, k->class_zone);
}

static void start_pass(const struct reclaim_parts *parts, struct kswapd *k)
{
	struct model *m = parts->model;

	k->alloc_order = k->reclaim_order = k->want_order;
	k->class_zone = asked_zone(m, k);
	k->want_order = 0;
	k->want_zone = -1;
	vmstat_diff_kswapd(m, k->node, true);
	kswapd_begin(m, k->node, k->class_zone);
	k->state = KSWAPD_BALANCING;
	k->priority = DEF_PRIORITY;
	k->reclaimed = k->boost = 0;
	k->in_round = false;
	k->yield = 0;
	k->last = NULL;
	scan_begin(&k->cursor, tape_node(m, k->node), node_class(m, k->node, k->class_zone));
	reclaim_supply_shrinks(parts->supply, k->node, true);
	for_each_node_zone(m, zone, k->node, k->class_zone) k->boost += zone->boost;
	k->boosted = k->boost > 0;
}

static void begin_pass(const struct reclaim_parts *parts, struct kswapd *k)
{
	start_pass(parts, k);
	node_counters(parts->model, k->node)->kswapd_passes++;
	emit_reclaim(parts->rows, &(struct reclaim_row){.kind = RECLAIM_KIND_KSWAPD_WAKE,
							.node = k->node,
							.zone = k->class_zone,
							.order = k->alloc_order});
}

void kswapd_start_in_pass(const struct reclaim_parts *parts, struct kswapd *k)
{
	k->want_zone = NR_ZONE - 1;
	start_pass(parts, k);
	k->due = parts->model->now.ts;
}

void kswapd_start_napping(struct kswapd *k, uint64_t until)
{
	k->state = KSWAPD_NAPPING;
	k->due = until;
}

/*
 * The timer ends a nap. kswapd stays on its wait queue until it runs, so calls meanwhile emit rows
 * although they wake no task (waitqueue_active). The first one counts.
 */
static void time_out(const struct reclaim_parts *parts, struct kswapd *k)
{
	k->state = KSWAPD_NAPPED;
	k->called = false;
	k->due = parts->model->now.ts + service_draw_wake_ns(parts->service);
}

/* kswapd_try_to_sleep, up to the nap. */
static struct kcompactd_wake try_to_sleep(const struct reclaim_parts *parts, struct kswapd *k)
{
	if (!may_sleep(parts->model, k)) {
		begin_pass(parts, k);
		return (struct kcompactd_wake){0};
	}
	compaction_kswapd_naps(parts->compaction, k->node);
	k->state = KSWAPD_NAPPING;
	k->due = parts->model->now.ts + NAP_NS;
	return (struct kcompactd_wake){k->alloc_order, k->class_zone};
}

/* kswapd_try_to_sleep, after the nap. */
static void end_nap(const struct reclaim_parts *parts, struct kswapd *k)
{
	struct model *m = parts->model;

	if (!may_sleep(m, k)) {
		begin_pass(parts, k);
		return;
	}
	node_counters(m, k->node)->kswapd_sleeps++;
	emit_reclaim(parts->rows, &(struct reclaim_row){.kind = RECLAIM_KIND_KSWAPD_SLEEP,
							.node = k->node,
							.zone = -1,
							.order = -1});
	vmstat_diff_kswapd(m, k->node, false);
	k->state = KSWAPD_ASLEEP;
	k->slept_at = m->now.ts;
	k->due = UINT64_MAX;
}

static struct kswapd_wants end_pass(const struct reclaim_parts *parts, struct kswapd *k)
{
	struct model *m = parts->model;
	bool reset = k->reclaim_order < k->alloc_order;
	struct kswapd_wants wants = {0};

	kswapd_end(m, k->node);
	reclaim_supply_shrinks(parts->supply, k->node, false);
	if (k->boosted)
		wants.after_boost = (struct kcompactd_wake){m->pageblock_order, k->class_zone};
	if (!reset) {
		k->alloc_order = k->reclaim_order = k->want_order;
		k->class_zone = asked_zone(m, k);
	}
	wants.before_nap = try_to_sleep(parts, k);
	return wants;
}

static int floor_log2(int64_t n)
{
	return n > 0 ? 63 - __builtin_clzll((uint64_t)n) : -1;
}

/*
 * set_initial_priority, 6.12 and 7.2: lists with generations begin where a scan may reach the goal.
 */
static int first_priority(const struct kswapd *k, int64_t lru)
{
	int priority = floor_log2(lru) - floor_log2(k->round_pages - 1) - 1;

	if (k->priority != DEF_PRIORITY || k->round_pages < BATCH)
		return k->priority;
	if (priority < DEF_PRIORITY / 2)
		return DEF_PRIORITY / 2;
	return priority < DEF_PRIORITY ? priority : DEF_PRIORITY;
}

static int64_t managed_pages(const struct model *m, int node, int class_zone)
{
	int64_t managed = 0;

	for_each_node_zone(m, zone, node, class_zone) managed += (int64_t)zone->managed;
	return managed;
}

/* The recorded scan that the pass would take next. */
static const struct scan_row *next_scan(const struct reclaim_parts *parts, const struct kswapd *k)
{
	struct scan_cursor ahead = k->cursor;

	return scan_next(parts->pace, &ahead, parts->model->now.ts);
}

/*
 * Pages on the node's lists that a pass counts, as recorded at this time: those of its zones
 * (lruvec_lru_size), but with generations those of all zones (should_run_aging, 6.12;
 * lruvec_evictable_size, 7.2). Of the lists of a scan for other zones, these zones have their
 * share. At most all pages of the zones.
 */
static int64_t lru_pages(const struct reclaim_parts *parts, const struct kswapd *k)
{
	const struct model *m = parts->model;
	const struct scan_row *row = next_scan(parts, k);
	int class_zone = parts->pace->generations ? NR_ZONE - 1 : k->class_zone;
	int64_t recorded = (int64_t)row->lru_pages;
	int64_t managed = managed_pages(m, k->node, class_zone);
	int64_t of_scan = managed_pages(m, k->node, row->class_zone);

	if (!row->scanned)
		return 0;
	if (recorded && of_scan && !parts->pace->generations)
		recorded = recorded < of_scan ? recorded * managed / of_scan : managed;
	return recorded && recorded < managed ? recorded : managed;
}

/* Duration of a round that scans no page. `row`: the recorded scan of that time. */
static uint64_t empty_ns(const struct scan_row *row)
{
	return row->scanned ? EMPTY_NS : row->ns / DEF_PRIORITY;
}

/* Begin a round of balance_pgdat. False if the pass ends instead. */
static bool begin_round(const struct reclaim_parts *parts, struct kswapd *k)
{
	const struct model *m = parts->model;
	bool balanced = kswapd_balanced(m, k->node, k->reclaim_order, k->class_zone);
	int64_t lru = lru_pages(parts, k);

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
	}
	k->left = 0;
	/* Lists with generations are not scanned for a boost: lru_gen_shrink_node wants writeback.
	 */
	if (!parts->pace->generations || !k->boost) {
		if (parts->pace->generations)
			k->priority = first_priority(k, lru);
		k->left = lru >> k->priority;
	}
	k->scanned = k->got = 0;
	k->in_round = true;
	return true;
}

/* End a round. Returns whether the pass continues. */
static bool end_round(const struct model *m, struct kswapd *k)
{
	int64_t work = k->scanned > k->got ? k->scanned : k->got;
	bool harder = work < k->round_pages && !(k->boost && k->priority == BOOST_PRIORITY);

	k->in_round = false;
	k->reclaimed += k->got;
	if (k->reclaim_order && k->reclaimed >= compact_gap(m, k->reclaim_order)) {
		k->reclaim_order = 0;
		node_counters(m, k->node)->order_resets++;
	}
	k->boost -= k->got < k->boost ? k->got : k->boost;
	if (k->boost && !k->got)
		return false;
	if (harder || !k->got)
		k->priority--;
	return k->priority >= 1;
}

/* Whether a scan ends its round before the round's share of the lists: shrink_lruvec. */
static bool is_enough(const struct reclaim_parts *parts, const struct kswapd *k)
{
	struct model *m = parts->model;
	int64_t goal = k->round_pages, gap = compact_gap(m, k->reclaim_order);
	const struct request single = {
		.migratetype = MIGRATETYPE_UNMOVABLE,
		.class_zone = (uint8_t)k->class_zone,
	};

	if (!parts->pace->generations)
		return k->got >= goal;
	/* should_abort_scan, 6.12 and 7.2 */
	if (k->got >= (goal > gap ? goal : gap))
		return true;
	if (k->reclaim_order)
		return false;
	for_each_node_zone(
		m, zone, k->node,
		k->class_zone) if (!watermark_ok(m, zone, &single,
						 balanced_mark(m, zone) + BATCH)) return false;
	return true;
}

/*
 * Pages of the node were reclaimed, for this order and these zones (shrink_node). Up to 6.19 that
 * suffices; since 7.0 the node must be balanced (kswapd_try_clear_hopeless, 7.2).
 */
static void forget_failures(const struct model *m, struct kswapd *k, int order, int class_zone)
{
	if (m->kernel->kswapd_hopeless == KSWAPD_HOPELESS_PROGRESS ||
	    kswapd_balanced(m, k->node, order, class_zone))
		k->failures = 0;
}

/* Whether a pass that ends counts as a failure. Since 7.2 one that began with a boost does not. */
static bool is_failure(const struct model *m, const struct kswapd *k)
{
	return !k->reclaimed &&
	       (m->kernel->kswapd_hopeless != KSWAPD_HOPELESS_BOOSTLESS || !k->boosted);
}

/*
 * Whether the round ends with the record's pass, which ended between the last scan and this one. A
 * node that is balanced need not be scanned further: the kernel looks only between rounds, but the
 * record's kswapd may have begun anew, with small ones, where the model's is in a large one. At the
 * last priority the record's kswapd gave up, because its lists held no more.
 */
static bool ends_with_record(const struct model *m, const struct kswapd *k,
			     const struct scan_row *row)
{
	if (!k->last || row->pass == k->last->pass)
		return false;
	return (k->priority == 1 && k->last->spent) ||
	       (!k->boost && kswapd_balanced(m, k->node, k->reclaim_order, k->class_zone));
}

/*
 * Pages of one scan at most. With generations, pages that the scan keeps for later do not count
 * towards its batch (scan_folios, 6.1 to 7.2).
 */
static int64_t scan_most(const struct reclaim_parts *parts, const struct scan_row *row)
{
	if (!parts->pace->generations)
		return CLUSTER;
	return row->scanned > BATCH ? (int64_t)row->scanned : BATCH;
}

/*
 * One scan of the LRU lists, as the record has it. A scan of fewer pages than the recorded one is
 * as much shorter; a larger one takes no longer, because recorded scans of few pages were mostly
 * overhead. A block larger than the yield is scanned as a whole.
 */
static void scan(const struct reclaim_parts *parts, struct kswapd *k)
{
	const struct scan_row *row = scan_next(parts->pace, &k->cursor, parts->model->now.ts);
	int64_t most = scan_most(parts, row), wanted, got;
	int64_t pages = k->left < most ? k->left : most;
	uint64_t ns;

	/* The record's lists are empty by now. */
	if (!row->scanned || ends_with_record(parts->model, k, row)) {
		k->left = 0;
		k->last = NULL;
		k->due = parts->model->now.ts + empty_ns(row);
		return;
	}
	k->last = row;
	if (row->cpu < parts->model->nr_cpus && parts->model->cpu_nodes[row->cpu] == k->node)
		parts->model->now.cpu = k->cpu = row->cpu;
	k->yield += (uint64_t)pages * YIELD * row->freed / row->scanned;
	wanted = (int64_t)(k->yield / YIELD);
	k->yield %= YIELD;
	got = reclaim_supply_take(parts->supply, k->node, k->class_zone, wanted);
	pages += got > wanted ? got - wanted : 0;
	ns = (uint64_t)pages < row->scanned ? (uint64_t)pages * row->ns / row->scanned : row->ns;
	k->got += got;
	k->scanned += pages;
	k->left -= pages < k->left ? pages : k->left;
	k->due = parts->model->now.ts + ns;
	if (got)
		forget_failures(parts->model, k, k->reclaim_order, k->class_zone);
}

static struct kswapd_wants balance(const struct reclaim_parts *parts, struct kswapd *k)
{
	const struct kswapd_wants none = {0};
	int64_t shrunk;
	bool more;

	if (!k->in_round && !begin_round(parts, k))
		return end_pass(parts, k);
	if (k->left)
		scan(parts, k);
	else
		k->due = parts->model->now.ts + empty_ns(next_scan(parts, k));
	shrunk = reclaim_supply_shrunk(parts->supply, k->node);
	more = k->left > 0 && !is_enough(parts, k);
	if (!more)
		shrunk += reclaim_supply_shrink(parts->supply, k->node, INT64_MAX);
	k->got += shrunk;
	if (shrunk)
		forget_failures(parts->model, k, k->reclaim_order, k->class_zone);
	if (more || end_round(parts->model, k))
		return none;
	k->failures += is_failure(parts->model, k);
	return end_pass(parts, k);
}

struct kswapd_wants kswapd_step(const struct reclaim_parts *parts, struct kswapd *k)
{
	struct kswapd_wants wants = {0};

	k->due = parts->model->now.ts;
	switch (k->state) {
	case KSWAPD_WAKING:
		begin_pass(parts, k);
		break;
	case KSWAPD_BALANCING:
		wants = balance(parts, k);
		break;
	case KSWAPD_NAPPING:
		time_out(parts, k);
		break;
	case KSWAPD_NAPPED:
		end_nap(parts, k);
		break;
	case KSWAPD_ASLEEP:
		k->due = UINT64_MAX;
		break;
	}
	return wants;
}

/* The node of a sleeping kswapd is short of memory: count a sleep of less than a second. */
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

struct kcompactd_wake kswapd_wakeup(const struct reclaim_parts *parts, struct kswapd *k,
				    uint32_t gfp_flags, int order, int class_zone)
{
	const struct kcompactd_wake none = {0};
	struct model *m = parts->model;

	k->want_zone = k->want_zone > class_zone ? k->want_zone : class_zone;
	k->want_order = k->want_order > order ? k->want_order : order;
	if (k->state == KSWAPD_WAKING || k->state == KSWAPD_BALANCING)
		return none;
	if (k->failures >= KSWAPD_MAX_FAILURES || (kswapd_balanced(m, k->node, order, class_zone) &&
						   !is_boosted(m, k->node, class_zone))) {
		/* 5ecd9d403ad0, 4.17 */
		if (m->kernel->kcompactd_by_callers && !(gfp_flags & GFP_DIRECT_RECLAIM))
			return (struct kcompactd_wake){order, class_zone};
		return none;
	}
	emit_reclaim(parts->rows, &(struct reclaim_row){.kind = RECLAIM_KIND_WAKEUP_KSWAPD,
							.node = k->node,
							.zone = class_zone,
							.order = order,
							.gfp_flags = gfp_flags});
	if (k->state == KSWAPD_NAPPED && k->called)
		return none;
	node_counters(m, k->node)->kswapd_wakeups++;
	k->called = true;
	if (k->state == KSWAPD_NAPPED)
		return none;
	if (k->state == KSWAPD_NAPPING) {
		node_counters(m, k->node)->naps_cut++;
		/* The next pass also aims at the order of the last one. */
		k->want_order = k->want_order > k->reclaim_order ? k->want_order : k->reclaim_order;
	} else {
		note_premature(m, k);
	}
	k->state = KSWAPD_WAKING;
	kswapd_woken(m, k->node); /* it left its wait queue */
	k->due = m->now.ts + service_draw_wake_ns(parts->service);
	return none;
}

void kswapd_overtaken(const struct model *m, struct kswapd *k, const struct request *rq,
		      bool progress)
{
	if (k->state == KSWAPD_ASLEEP)
		note_premature(m, k);
	if (progress)
		forget_failures(m, k, rq->order, rq->class_zone);
}

// SPDX-License-Identifier: Apache-2.0
#include "pcp.h"

#include "buddy.h"
#include "fallback.h"

enum { REMOTE_EXPIRE = 3 }; /* ticks a remote node's PCP may idle (refresh_cpu_vm_stats) */

static int min_int(int a, int b)
{
	return a < b ? a : b;
}

static int max_int(int a, int b)
{
	return a > b ? a : b;
}

/* The kernel's clamp(): with low above high, high. */
static int clamp_int(int value, int low, int high)
{
	return min_int(max_int(value, low), high);
}

/* zone_batchsize: 1/1024 of the zone, at most 1 MiB (512 KiB up to 2.6.33). */
static int batch_size(const struct model *m, const struct zone *zone)
{
	uint64_t most = m->kernel->reserve_blocks ? 128 : 256;
	uint64_t batch = zone->managed / 1024;
	int power = 1;

	batch = (batch < most ? batch : most) / 4;
	batch = batch ? batch : 1;
	while ((uint64_t)power * 2 <= batch + batch / 2)
		power *= 2;
	return power - 1;
}

/* zone_highsize, 5.14 to 6.18: the share of one CPU of the zone's node. */
static int high_size(const struct model *m, const struct zone *zone, int batch, int fraction)
{
	int64_t pages = fraction ? (int64_t)zone->managed / fraction : zone->wmark[WMARK_LOW];
	int cpus = 0;

	for (int cpu = 0; cpu < m->nr_cpus; cpu++)
		cpus += m->cpu_nodes[cpu] == zone->node;
	pages /= cpus ? cpus : m->nr_cpus;
	return max_int((int)(pages < INT32_MAX ? pages : INT32_MAX), 4 * batch);
}

void pcp_set_sizes(struct model *m, const struct zone *zone, int high_fraction)
{
	enum { AUTO_MAX_FRACTION = 8, MAX_BATCH = 96 };
	int batch = batch_size(m, zone);

	for (int cpu = 0; cpu < m->nr_cpus; cpu++) {
		struct pcp *pcp = zone_pcp(m, zone, cpu);

		pcp->batch = max_int(batch, 1);
		switch (m->kernel->pcp_tuning) {
		case PCP_FIXED:
			pcp->high = 6 * batch;
			if (high_fraction) {
				pcp->high = (int)(zone->managed / (uint64_t)high_fraction);
				pcp->batch = clamp_int(pcp->high / 4, 1, MAX_BATCH);
			}
			break;
		case PCP_FREE_FACTOR:
			pcp->high = high_size(m, zone, pcp->batch, high_fraction);
			break;
		default:
			pcp->high_min = high_size(m, zone, pcp->batch, high_fraction);
			pcp->high_max =
				high_size(m, zone, pcp->batch,
					  high_fraction ? high_fraction : AUTO_MAX_FRACTION);
			pcp->high = pcp->high_min;
		}
	}
}

/* Position of a migratetype among the lists of one order. */
static int type_rank(const struct model *m, int migratetype)
{
	if (migratetype > MIGRATETYPE_RECLAIMABLE)
		migratetype = MIGRATETYPE_MOVABLE;
	if (m->kernel->reclaimable_first && migratetype != MIGRATETYPE_UNMOVABLE)
		return MIGRATETYPE_MOVABLE + MIGRATETYPE_RECLAIMABLE - migratetype;
	return migratetype;
}

static int list_index(const struct model *m, int order, int migratetype)
{
	enum { THP_LISTS = 3 * (PCP_MAX_ORDER + 1) };

	switch (m->kernel->pcp_lists) {
	case PCP_LISTS_1:
		return 0;
	case PCP_LISTS_3:
		return type_rank(m, migratetype);
	default:
		if (order <= PCP_MAX_ORDER)
			return 3 * order + type_rank(m, migratetype);
	}
	if (m->kernel->pcp_lists == PCP_LISTS_15)
		return THP_LISTS + type_rank(m, migratetype);
	if (m->kernel->pcp_lists == PCP_LISTS_14)
		return THP_LISTS + (type_rank(m, migratetype) == MIGRATETYPE_MOVABLE);
	return THP_LISTS;
}

void pcp_list_of(const struct model *m, int list, int *order, int *migratetype)
{
	for (*order = 0; *order <= m->max_order; ++*order) {
		if (!pcp_allowed(m, *order))
			continue;
		for (*migratetype = 0; *migratetype <= MIGRATETYPE_RECLAIMABLE; ++*migratetype)
			if (list_index(m, *order, *migratetype) == list)
				return;
	}
}

void pcp_push(struct model *m, struct pcp *pcp, uint32_t head, int order, int list_type,
	      int recorded, bool to_tail)
{
	uint32_t list = pcp->heads + (uint32_t)list_index(m, order, list_type);
	struct frame *f = &m->frames[head];

	f->list = (uint16_t)(pcp - m->pcps);
	f->order = (uint8_t)order;
	f->state = FRAME_PCP;
	f->recorded = (uint8_t)recorded & 15;
	if (to_tail)
		list_add_tail(m->frames, list, head);
	else
		list_add_head(m->frames, list, head);
	pcp->count += 1 << order;
}

static void pcp_remove(struct model *m, struct pcp *pcp, uint32_t head)
{
	list_del(m->frames, head);
	pcp->count -= 1 << m->frames[head].order;
}

/* free_pcppages_bulk's inner step: the tail of one list goes to the buddy. */
static int drain_one(struct model *m, struct zone *zone, struct pcp *pcp, int list)
{
	uint32_t head = m->frames[pcp->heads + (uint32_t)list].prev;
	int order = m->frames[head].order, migratetype = m->frames[head].recorded;
	int list_order;

	if (m->kernel->drained_type == DRAINED_INDEX)
		pcp_list_of(m, list, &list_order, &migratetype);
	else if (m->kernel->drained_type == DRAINED_BLOCK)
		migratetype = frame_block(m, head)->migratetype;
	pcp_remove(m, pcp, head);
	__builtin_prefetch(&m->frames[m->frames[pcp->heads + (uint32_t)list].prev ^ 1]);
	free_one(m, zone, head, order, migratetype);
	events_pcpu_drain(m->events, &m->now, (int64_t)frame_pfn(m, head), order, migratetype);
	return 1 << order;
}

static bool pcp_list_empty(const struct model *m, const struct pcp *pcp, int list)
{
	return list_empty(m->frames, pcp->heads + (uint32_t)list);
}

/*
 * 2.6.32 to 5.18: round robin, one page more of each list that was found with every
 * empty one passed; once a whole round found but one list, that list gives the rest.
 */
static void drain_round_robin(struct model *m, struct zone *zone, struct pcp *pcp, int count)
{
	bool last_takes_all = m->kernel->drain_rule == DRAIN_ROUND_ROBIN_ALL;
	int list = 0, quota = 0;

	while (count > 0) {
		do {
			quota++;
			list = (list + 1) % m->nr_pcp_lists;
		} while (pcp_list_empty(m, pcp, list));
		if (last_takes_all && quota == m->nr_pcp_lists)
			quota = count;
		do
			count -= drain_one(m, zone, pcp, list);
		while (count > 0 && --quota && !pcp_list_empty(m, pcp, list));
	}
}

/* 5.19 to 6.18: empty one list after the other, beginning with `list`. */
static void drain_from(struct model *m, struct zone *zone, struct pcp *pcp, int count, int list)
{
	while (count > 0) {
		while (pcp_list_empty(m, pcp, list))
			list = (list + 1) % m->nr_pcp_lists;
		do
			count -= drain_one(m, zone, pcp, list);
		while (count > 0 && !pcp_list_empty(m, pcp, list));
	}
}

/* free_pcppages_bulk: at least `count` pages to the buddy; returns how many. */
static uint32_t drain(struct model *m, struct zone *zone, struct pcp *pcp, int count, int list)
{
	int before = pcp->count;

	count = min_int(count, pcp->count);
	zone_counters(m, zone)->lock_holds++;
	zone_pcp(m, zone, m->now.cpu)->touched = true;
	if (m->kernel->drain_rule == DRAIN_FROM_INDEX)
		drain_from(m, zone, pcp, count, list);
	else if (m->kernel->drain_rule == DRAIN_TAIL_OF_ONE)
		drain_from(m, zone, pcp, count, 0);
	else
		drain_round_robin(m, zone, pcp, count);
	return (uint32_t)(before - pcp->count);
}

/* nr_pcp_alloc, 6.8 to 6.18. */
static int refill_auto(const struct zone *zone, struct pcp *pcp, int order)
{
	int high = pcp->high = clamp_int(pcp->high, pcp->high_min, pcp->high_max);
	int batch = order ? pcp->batch : pcp->batch << pcp->alloc_factor;

	if (high < pcp->batch)
		return 1;
	if (pcp->high_min != pcp->high_max && !zone->below_high)
		high = pcp->high = min_int(high + batch, pcp->high_max);
	if (!order) {
		int cap = max_int(high - pcp->count - pcp->batch, pcp->batch);

		if (batch <= cap && pcp->alloc_factor < PCP_SCALE_MAX)
			pcp->alloc_factor++;
		batch = min_int(batch, cap);
	}
	return batch > 1 ? max_int(batch >> order, 2) : batch;
}

/* Entries one refill asks for. */
static int refill_size(const struct model *m, const struct zone *zone, struct pcp *pcp, int order)
{
	switch (m->kernel->pcp_tuning) {
	case PCP_FIXED:
		return pcp->batch;
	case PCP_FREE_FACTOR:
		return pcp->batch > 1 ? max_int(pcp->batch >> order, 2) : pcp->batch;
	default:
		return refill_auto(zone, pcp, order);
	}
}

/* Whether a request asks for cold pages of a kernel that knows them: the tail of a list. */
static bool wants_cold(const struct model *m, const struct request *rq)
{
	return m->kernel->cold_pages && rq->gfp_flags & GFP_COLD;
}

/* 2.6.31: a refill stands together, before the pages the mixed list had (cold: after). */
static uint32_t place_mixed(struct model *m, uint32_t frame, uint32_t last, bool cold)
{
	struct frame *f = m->frames;

	list_del(f, frame);
	if (cold)
		list_add(f, frame, f[last].prev, last);
	else
		list_add(f, frame, last, f[last].next);
	return frame;
}

/* rmqueue_bulk: what the buddy gives first is handed out first. */
static void refill(struct model *m, struct zone *zone, struct pcp *pcp, const struct request *rq)
{
	int want = refill_size(m, zone, pcp, rq->order), before = pcp->count;
	bool cold = wants_cold(m, rq), mixed = m->kernel->pcp_lists == PCP_LISTS_1;
	enum rmqueue_mode mode = RMQUEUE_NORMAL;
	uint32_t last = pcp->heads;

	for (int i = 0; i < want; i++) {
		uint32_t frame = rmqueue_core(m, zone, rq, &mode);

		if (frame == NO_FRAME)
			break;
		/* A page of a list keeps the list's number until it is put elsewhere. */
		pcp_push(m, pcp, frame, rq->order, rq->migratetype,
			 m->kernel->reserve_blocks ? rq->migratetype : m->frames[frame].list,
			 !cold);
		if (mixed)
			last = place_mixed(m, frame, last, cold);
	}
	pcp->counters.refills++;
	pcp->counters.lock_holds++;
	pcp->counters.refill_pages += (uint32_t)(pcp->count - before);
}

/* 2.6.31: of the one list, the first page of the right type; else the first of all. */
static uint32_t pcp_alloc_mixed(struct model *m, struct zone *zone, struct pcp *pcp,
				const struct request *rq)
{
	struct frame *f = m->frames;
	bool cold = wants_cold(m, rq);
	uint32_t frame = cold ? f[pcp->heads].prev : f[pcp->heads].next;

	if (frame == pcp->heads) {
		refill(m, zone, pcp, rq);
		return cold ? f[pcp->heads].prev : f[pcp->heads].next;
	}
	while (frame != pcp->heads && f[frame].recorded != rq->migratetype)
		frame = cold ? f[frame].prev : f[frame].next;
	if (frame == pcp->heads) {
		refill(m, zone, pcp, rq);
		frame = f[pcp->heads].next;
	}
	return frame;
}

uint32_t pcp_alloc(struct model *m, struct zone *zone, const struct request *rq)
{
	struct pcp *pcp = zone_pcp(m, zone, m->now.cpu);
	uint32_t list = pcp->heads + (uint32_t)list_index(m, rq->order, rq->migratetype);
	bool cold = wants_cold(m, rq);
	uint32_t frame = cold ? m->frames[list].prev : m->frames[list].next;
	uint64_t refills = pcp->counters.refills;

	pcp->touched = true;
	pcp->free_factor >>= 1;
	pcp->free_count >>= 1;
	if (m->kernel->pcp_lists == PCP_LISTS_1) {
		frame = pcp_alloc_mixed(m, zone, pcp, rq);
	} else if (frame == list) {
		refill(m, zone, pcp, rq);
		frame = cold ? m->frames[list].prev : m->frames[list].next;
	}
	if (frame == list)
		return NO_FRAME;
	pcp->counters.pcp_hits += refills == pcp->counters.refills;
	pcp_remove(m, pcp, frame);
	m->frames[frame].state = FRAME_USED;
	return frame;
}

/* 5.14 to 6.6: free_unref_page_commit with nr_pcp_high and nr_pcp_free. */
static int overflow_free_factor(const struct model *m, const struct zone *zone, struct pcp *pcp,
				int order)
{
	int high = zone->reclaim_active ? min_int(4 * pcp->batch, pcp->high) : pcp->high;
	int limit = m->kernel->free_factor_max, drain;
	bool free_high = m->kernel->free_high == FREE_HIGH_FACTOR && pcp->free_factor &&
			 order >= 1 && order <= PCP_MAX_ORDER;

	if (free_high)
		return pcp->count;
	if (pcp->count < high)
		return 0;
	if (high < pcp->batch)
		return 1;
	drain = pcp->free_factor < 24 ? pcp->batch << pcp->free_factor : INT32_MAX;
	if (drain < high - pcp->batch && (!limit || pcp->free_factor < limit))
		pcp->free_factor++;
	return clamp_int(drain, pcp->batch, high - pcp->batch);
}

/* nr_pcp_high, 6.8 to 6.18: at which count this free drains; adapts pcp->high. */
static int high_auto(const struct zone *zone, struct pcp *pcp, bool free_high)
{
	int high = pcp->high = clamp_int(pcp->high, pcp->high_min, pcp->high_max);
	int shrunk = max_int(high - max_int(pcp->free_count, pcp->batch), pcp->high_min);

	if (!high)
		return 0;
	if (free_high) {
		pcp->high = max_int(high - (pcp->batch << PCP_SCALE_MAX), pcp->high_min);
		return 0;
	}
	if (zone->reclaim_active) {
		pcp->high = shrunk;
		return min_int(4 * pcp->batch, pcp->high);
	}
	if (pcp->high_min == pcp->high_max)
		return high;
	if (zone->below_high) {
		pcp->high = shrunk;
		return max_int(pcp->count, pcp->high_min);
	}
	if (pcp->count >= high && pcp->high < pcp->free_count + pcp->batch)
		pcp->high = clamp_int(pcp->free_count + pcp->batch, pcp->high_min, pcp->high_max);
	return high;
}

/* 6.8 to 6.18: free_unref_page_commit with nr_pcp_free. */
static int overflow_auto(const struct model *m, const struct zone *zone, struct pcp *pcp, int order)
{
	bool high_order = order >= 1 && order <= PCP_MAX_ORDER;
	int wanted = pcp->batch, high;
	bool free_high;

	if (m->kernel->free_high == FREE_HIGH_HALF_MIN)
		wanted += pcp->high_min / 2;
	free_high = high_order && pcp->free_count >= wanted &&
		    pcp->flags & PCP_PREV_FREE_HIGH_ORDER &&
		    (!(pcp->flags & PCP_FREE_HIGH_BATCH) || pcp->count >= pcp->batch);
	if (high_order)
		pcp->flags |= PCP_PREV_FREE_HIGH_ORDER;
	else
		pcp->flags &= (uint8_t)~PCP_PREV_FREE_HIGH_ORDER;
	if (pcp->free_count < pcp->batch << PCP_SCALE_MAX)
		pcp->free_count += 1 << order;
	high = high_auto(zone, pcp, free_high);
	if (pcp->count < high)
		return 0;
	if (free_high)
		return min_int(pcp->count, pcp->batch << PCP_SCALE_MAX);
	if (high < pcp->batch)
		return 1;
	return clamp_int(pcp->free_count, pcp->batch, high - pcp->batch);
}

/* How many pages the free just counted must drain. */
static int overflow(const struct model *m, const struct zone *zone, struct pcp *pcp, int order)
{
	switch (m->kernel->pcp_tuning) {
	case PCP_FIXED:
		return pcp->count >= pcp->high ? pcp->batch : 0;
	case PCP_FREE_FACTOR:
		return overflow_free_factor(m, zone, pcp, order);
	default:
		return overflow_auto(m, zone, pcp, order);
	}
}

void pcp_free(struct model *m, struct zone *zone, uint32_t head, int order)
{
	int migratetype = frame_block(m, head)->migratetype, drained;
	struct pcp *pcp = zone_pcp(m, zone, m->now.cpu);
	static const struct request any = {.class_zone = ZONE_MOVABLE};

	pcp->touched = true;
	if (!pcp_allowed(m, order) || migratetype == MIGRATETYPE_ISOLATE) {
		pcp->counters.buddy_frees++;
		pcp->counters.lock_holds++;
		free_direct(m, zone, head, order);
		return;
	}
	pcp->alloc_factor >>= 1;
	pcp_push(m, pcp, head, order, migratetype, migratetype, false);
	drained = overflow(m, zone, pcp, order);
	if (!drained)
		return;
	pcp->counters.drains++;
	pcp->counters.drain_pages +=
		drain(m, zone, pcp, drained, list_index(m, order, migratetype));
	if (zone->below_high && watermark_ok(m, zone, &any, zone_mark(zone, WMARK_HIGH)))
		zone->below_high = false;
}

/* drain_pages: one CPU's PCPs, zone by zone. */
static void drain_cpu(struct model *m, int cpu)
{
	for (int i = 0; i < m->nr_zones; i++) {
		struct zone *zone = &m->zones[i];
		struct pcp *pcp = zone_pcp(m, zone, cpu);

		while (pcp->count > 0) {
			int piece = m->kernel->drain_all_pieces ? pcp->batch << PCP_SCALE_MAX
								: pcp->count;

			zone_counters(m, zone)->drains++;
			zone_counters(m, zone)->drain_pages += drain(m, zone, pcp, piece, 0);
		}
	}
}

void pcp_drain_all(struct model *m)
{
	struct moment caller = m->now;

	for (int cpu = 0; cpu < m->nr_cpus; cpu++) {
		if (!m->kernel->drain_all_remote)
			m->now = (struct moment){.ts = caller.ts, .cpu = (uint16_t)cpu};
		drain_cpu(m, cpu);
	}
	m->now = caller;
}

static void count_decay(struct model *m, struct zone *zone, struct pcp *pcp, int count)
{
	pcp->counters.decays++;
	pcp->counters.decay_pages += drain(m, zone, pcp, count, 0);
}

/* decay_pcp_high, 6.8 to 6.18; whether there is more to do. */
static bool decay(struct model *m, struct zone *zone, struct pcp *pcp)
{
	int excess;

	if (pcp->high > pcp->high_min)
		pcp->high = max_int(max_int(pcp->count - (pcp->batch << PCP_SCALE_MAX),
					    pcp->high - (pcp->high >> 3)),
				    pcp->high_min);
	excess = pcp->count - pcp->high;
	if (excess <= 0)
		return pcp->high > pcp->high_min;
	while (excess > 0) {
		int piece = m->kernel->decay == DECAY_PIECES ? min_int(excess, pcp->batch) : excess;

		count_decay(m, zone, pcp, piece);
		excess -= piece;
	}
	return true;
}

bool pcp_tick(struct model *m, int cpu)
{
	bool more = false;

	for (int i = 0; i < m->nr_zones; i++) {
		struct zone *zone = &m->zones[i];
		struct pcp *pcp = zone_pcp(m, zone, cpu);

		if (pcp->touched)
			pcp->expire = REMOTE_EXPIRE;
		pcp->touched = false;
		if (m->kernel->decay != DECAY_NONE)
			more |= decay(m, zone, pcp);
		if (!pcp->expire || !pcp->count)
			continue;
		if (zone->node == m->cpu_nodes[cpu]) {
			pcp->expire = 0;
			continue;
		}
		more = true;
		if (!--pcp->expire)
			count_decay(m, zone, pcp, pcp->batch);
	}
	return more;
}

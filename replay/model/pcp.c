// SPDX-License-Identifier: Apache-2.0
#include "pcp.h"

#include "buddy.h"
#include "vmstat_diff.h"
#include "fallback.h"
#include "min_max.h"
#include "watermark.h"
#include "zone_lock.h"

enum { REMOTE_EXPIRE = 3 }; /* ticks a remote node's PCP may idle (refresh_cpu_vm_stats) */

/* The kernel's clamp(): with low above high, high. */
static int clamp_int(int value, int low, int high)
{
	return min_int(max_int(value, low), high);
}

/* zone_batchsize: 1/1024 of the zone, at most 1 MiB (512 KiB up to 2.6.33). */
static int batch_size(const struct model *m, const struct zone *zone)
{
	uint64_t most = m->kernel->small_batch ? 128 : 256;
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
		cpus += m->cpu_nodes[cpu] == zone->node && cpu % m->zone_parts == zone->part;
	pages /= cpus ? cpus : m->nr_cpus;
	return max_int((int)(pages < INT32_MAX ? pages : INT32_MAX), 4 * batch);
}

void pcp_size(const struct model *m, const struct zone *zone, struct pcp *pcp, int high_fraction)
{
	enum { AUTO_MAX_FRACTION = 8, MAX_BATCH = 96 };
	int batch = batch_size(m, zone);

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
		pcp->high_max = high_size(m, zone, pcp->batch,
					  high_fraction ? high_fraction : AUTO_MAX_FRACTION);
		pcp->high = pcp->high_min;
	}
}

void pcp_set_sizes(struct model *m, const struct zone *zone, int high_fraction)
{
	for (int cpu = 0; cpu < m->nr_cpus; cpu++)
		pcp_size(m, zone, zone_pcp(m, zone, cpu), high_fraction);
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

/* Whether pages of MIGRATE_RESERVE have a list of their own: the last one, of order 0. */
static bool reserve_listed(const struct model *m)
{
	return m->kernel->reserve_pcp >= RESERVE_PCP_OWN;
}

static int number_of_list(const struct model *m, int order, int migratetype)
{
	enum { THP_LISTS = 3 * (PCP_MAX_ORDER + 1) };

	if (m->kernel->pcp_lists <= PCP_LISTS_3 && order)
		return NO_PCP_LIST;
	if (migratetype == MIGRATETYPE_RESERVE && m->kernel->reserve_pcp != RESERVE_PCP_MOVABLE)
		return reserve_listed(m) && !order ? m->nr_pcp_lists - 1 : NO_PCP_LIST;
	switch (m->kernel->pcp_lists) {
	case PCP_LISTS_1:
		return 0;
	case PCP_LISTS_3:
		return type_rank(m, migratetype);
	default:
		if (order <= PCP_MAX_ORDER)
			return 3 * order + type_rank(m, migratetype);
	}
	if (order != m->pageblock_order)
		return NO_PCP_LIST;
	if (m->kernel->pcp_lists == PCP_LISTS_15)
		return THP_LISTS + type_rank(m, migratetype);
	if (m->kernel->pcp_lists == PCP_LISTS_14)
		return THP_LISTS + (type_rank(m, migratetype) == MIGRATETYPE_MOVABLE);
	return THP_LISTS;
}

void pcp_number_lists(struct model *m)
{
	for (int order = 0; order < NR_PAGE_ORDERS; order++)
		for (int type = 0; type < NR_MIGRATETYPE; type++)
			m->pcp_lists[order][type] = (uint8_t)number_of_list(m, order, type);
}

void pcp_list_of(const struct model *m, int list, int *order, int *migratetype)
{
	for (*order = 0; *order <= m->max_order; ++*order)
		for (*migratetype = 0; *migratetype <= MIGRATETYPE_RECLAIMABLE; ++*migratetype)
			if (m->pcp_lists[*order][*migratetype] == list)
				return;
	*order = 0;
	*migratetype = MIGRATETYPE_RESERVE;
}

void pcp_push(struct model *m, struct pcp *pcp, uint32_t head, int order, int list_type,
	      int recorded, bool to_tail)
{
	uint32_t list = pcp_list(m, pcp, order, list_type);
	struct frame *f = &m->frames[head];

	f->list = pcp->number;
	f->order = (uint8_t)order;
	f->state = FRAME_PCP;
	f->recorded = (uint8_t)recorded & 15;
	if (to_tail)
		list_add_tail(m->frames, list, head);
	else
		list_add_head(m->frames, list, head);
	pcp->count += 1 << order;
}

void pcp_remove(struct model *m, struct pcp *pcp, uint32_t head)
{
	list_del(m->frames, head);
	pcp->count -= 1 << m->frames[head].order;
}

static bool pcp_list_empty(const struct model *m, const struct pcp *pcp, int list)
{
	return list_empty(m->frames, pcp->heads + (uint32_t)list);
}

void pcp_drain_begin(struct pcp_drain *d, const struct model *m, struct pcp *pcp, int pages,
		     int list)
{
	*d = (struct pcp_drain){.pcp = pcp, .left = min_int(pages, pcp->count)};
	if (m->kernel->drain_rule == DRAIN_FROM_INDEX)
		d->list = list;
}

uint32_t pcp_drain_next(struct pcp_drain *d, const struct model *m)
{
	struct pcp *pcp = d->pcp;

	if (d->left <= 0 || pcp->count <= 0)
		return NO_FRAME;
	switch (m->kernel->drain_rule) {
	case DRAIN_ROUND_ROBIN:
	case DRAIN_ROUND_ROBIN_ALL:
		if (d->quota && !pcp_list_empty(m, pcp, d->list))
			break;
		do {
			d->quota++;
			d->list = (d->list + 1) % m->nr_pcp_lists;
		} while (pcp_list_empty(m, pcp, d->list));
		if (m->kernel->drain_rule == DRAIN_ROUND_ROBIN_ALL && d->quota == m->nr_pcp_lists)
			d->quota = d->left;
		break;
	default:
		while (pcp_list_empty(m, pcp, d->list))
			d->list = (d->list + 1) % m->nr_pcp_lists;
	}
	return m->frames[pcp->heads + (uint32_t)d->list].prev;
}

/* What a drain of a page of MIGRATE_RESERVE, or of one that was, does to it. */
static int reserve_drained(const struct model *m, struct counters *counters, uint32_t head,
			   int migratetype)
{
	if (m->kernel->reserve_leaks && migratetype == MIGRATETYPE_RESERVE)
		migratetype = MIGRATETYPE_MOVABLE;
	if (frame_block(m, head)->migratetype == MIGRATETYPE_RESERVE &&
	    migratetype != MIGRATETYPE_RESERVE)
		counters->reserve_leaked += 1ull << m->frames[head].order;
	return migratetype;
}

/* The migratetype a page of a list is drained to. */
static int drained_type(const struct model *m, uint32_t head, int list)
{
	int order, migratetype;

	switch (m->kernel->drained_type) {
	case DRAINED_INDEX:
		pcp_list_of(m, list, &order, &migratetype);
		return migratetype;
	case DRAINED_BLOCK:
		return frame_block(m, head)->migratetype;
	default:
		return m->frames[head].recorded;
	}
}

void pcp_drain_take(struct pcp_drain *d, struct model *m, struct zone *zone, uint32_t head)
{
	int order = m->frames[head].order, migratetype = drained_type(m, head, d->list);

	if (m->kernel->reserve_blocks)
		migratetype = reserve_drained(m, &d->pcp->counters, head, migratetype);
	pcp_remove(m, d->pcp, head);
	__builtin_prefetch(&m->frames[m->frames[d->pcp->heads + (uint32_t)d->list].prev ^ 1]);
	buddy_free(m, zone, head, order, migratetype, d->capture);
	events_pcpu_drain(m->events, &m->now, (int64_t)frame_pfn(m, head), order, migratetype);
	d->left -= 1 << order;
	d->quota -= d->quota > 0;
}

/* free_pcppages_bulk: at least `count` pages to the buddy; returns how many. */
static uint32_t drain(struct model *m, struct zone *zone, struct pcp *pcp, int count, int list,
		      int kind)
{
	int before = pcp->count;
	uint64_t blocks = 0;
	struct pcp_drain d;
	uint32_t head;

	zone_counters(m, zone)->lock_holds++;
	zone_pcp(m, zone, m->now.cpu)->touched = true;
	pcp_drain_begin(&d, m, pcp, count, list);
	for (; (head = pcp_drain_next(&d, m)) != NO_FRAME; blocks++)
		pcp_drain_take(&d, m, zone, head);
	zone_lock_held(m, zone, kind, blocks);
	return (uint32_t)(before - pcp->count);
}

/* nr_pcp_alloc, 6.8 to 6.18. */
static int refill_auto(const struct model *m, const struct zone *zone, struct pcp *pcp, int order)
{
	int high = pcp->high = clamp_int(pcp->high, pcp->high_min, pcp->high_max);
	int batch = order ? pcp->batch : pcp->batch << pcp->alloc_factor;

	if (high < pcp->batch)
		return 1;
	if (pcp->high_min != pcp->high_max && !zone->below_high)
		high = pcp->high = min_int(high + batch, pcp->high_max);
	if (!order) {
		int cap = max_int(high - pcp->count - pcp->batch, pcp->batch);

		if (batch <= cap && pcp->alloc_factor < m->kernel->pcp_scale_max)
			pcp->alloc_factor++;
		batch = min_int(batch, cap);
	}
	return batch > 1 ? max_int(batch >> order, 2) : batch;
}

int pcp_refill_size(const struct model *m, const struct zone *zone, struct pcp *pcp, int order)
{
	switch (m->kernel->pcp_tuning) {
	case PCP_FIXED:
		return pcp->batch;
	case PCP_FREE_FACTOR:
		return pcp->batch > 1 ? max_int(pcp->batch >> order, 2) : pcp->batch;
	default:
		return refill_auto(m, zone, pcp, order);
	}
}

/* Whether a request asks for cold pages of a kernel that knows them: the tail of a list. */
static bool wants_cold(const struct model *m, const struct request *rq)
{
	return m->kernel->cold_pages && rq->gfp_flags & GFP_COLD;
}

/* 2.6.31: a refill stands together, before the pages the mixed list had (cold: after). */
static void place_mixed(struct model *m, uint32_t frame, uint32_t last, bool cold)
{
	struct frame *f = m->frames;

	list_del(f, frame);
	if (cold)
		list_add(f, frame, f[last].prev, last);
	else
		list_add(f, frame, last, f[last].next);
}

void pcp_add_refilled(struct model *m, struct pcp *pcp, const struct request *rq, uint32_t frame,
		      uint32_t last)
{
	bool cold = wants_cold(m, rq);
	/* A page of a list keeps the list's number until it is put elsewhere. */
	int recorded = m->frames[frame].list;

	if (m->kernel->refill_as_asked || recorded == MIGRATETYPE_RESERVE)
		recorded = rq->migratetype;
	pcp_push(m, pcp, frame, rq->order, rq->migratetype, recorded, !cold);
	if (m->kernel->pcp_lists == PCP_LISTS_1)
		place_mixed(m, frame, last == NO_FRAME ? pcp->heads : last, cold);
}

/* rmqueue_bulk: what the buddy gives first is handed out first. */
void pcp_refill(struct model *m, struct zone *zone, struct pcp *pcp, const struct request *rq)
{
	int want = pcp_refill_size(m, zone, pcp, rq->order), before = pcp->count;
	enum rmqueue_mode mode = RMQUEUE_NORMAL;
	uint32_t last = NO_FRAME;
	int i;

	for (i = 0; i < want; i++) {
		uint32_t frame = rmqueue_core(m, zone, rq, &mode);

		if (frame == NO_FRAME)
			break;
		vmstat_diff_taken(m, zone, rq->order);
		pcp_add_refilled(m, pcp, rq, frame, last);
		last = frame;
	}
	vmstat_diff_refill(m, zone, i, rq->order);
	pcp->counters.refills++;
	pcp->counters.lock_holds++;
	pcp->counters.refill_pages += (uint32_t)(pcp->count - before);
	zone_lock_held(m, zone, ZONE_LOCK_KIND_REFILL, (uint64_t)i);
}

uint32_t pcp_first(const struct model *m, const struct pcp *pcp, const struct request *rq)
{
	const struct frame *f = m->frames;
	uint32_t list = pcp_list(m, pcp, rq->order, rq->migratetype);
	bool cold = wants_cold(m, rq);
	uint32_t entry = cold ? f[list].prev : f[list].next;

	/* 2.6.31: of the one list, the first of the right type. */
	if (m->kernel->pcp_lists == PCP_LISTS_1)
		while (entry != list && f[entry].recorded != rq->migratetype)
			entry = cold ? f[entry].prev : f[entry].next;
	return entry == list ? NO_FRAME : entry;
}

/* The entry a request gets right after its refill; NO_FRAME if that found nothing. */
static uint32_t first_refilled(const struct model *m, const struct pcp *pcp,
			       const struct request *rq, bool was_empty)
{
	uint32_t list = pcp_list(m, pcp, rq->order, rq->migratetype);
	/* 2.6.31 takes the first of all if there were others before. */
	bool tail = wants_cold(m, rq) && (was_empty || m->kernel->pcp_lists != PCP_LISTS_1);
	uint32_t entry = tail ? m->frames[list].prev : m->frames[list].next;

	return entry == list ? NO_FRAME : entry;
}

/* Last, the list of MIGRATE_RESERVE's own, for whom the row lets take from it. */
static uint32_t first_reserved(const struct model *m, const struct pcp *pcp,
			       const struct request *rq)
{
	uint32_t list = pcp->heads + (uint32_t)m->nr_pcp_lists - 1;
	uint32_t entry = wants_cold(m, rq) ? m->frames[list].prev : m->frames[list].next;
	bool allowed =
		m->kernel->reserve_pcp == RESERVE_PCP_OWN || rq->migratetype == MIGRATETYPE_MOVABLE;

	if (!reserve_listed(m) || !allowed || rq->order || rq->flags & ALLOC_NOFRAGMENT)
		return NO_FRAME;
	return entry == list ? NO_FRAME : entry;
}

uint32_t pcp_alloc(struct model *m, struct zone *zone, const struct request *rq)
{
	struct pcp *pcp = zone_pcp(m, zone, m->now.cpu);
	uint32_t frame = pcp_first(m, pcp, rq);

	pcp->touched = true;
	pcp->free_factor >>= 1;
	pcp->free_count >>= 1;
	if (frame != NO_FRAME) {
		pcp->counters.pcp_hits++;
	} else {
		bool was_empty = !pcp->count;

		pcp_refill(m, zone, pcp, rq);
		frame = first_refilled(m, pcp, rq, was_empty);
		if (frame == NO_FRAME)
			frame = first_reserved(m, pcp, rq);
		if (frame == NO_FRAME)
			return NO_FRAME;
	}
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
static int high_auto(const struct model *m, const struct zone *zone, struct pcp *pcp,
		     bool free_high)
{
	int high = pcp->high = clamp_int(pcp->high, pcp->high_min, pcp->high_max);
	int shrunk = max_int(high - max_int(pcp->free_count, pcp->batch), pcp->high_min);

	if (!high)
		return 0;
	if (free_high) {
		pcp->high = max_int(high - (pcp->batch << m->kernel->pcp_scale_max), pcp->high_min);
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
	if (pcp->free_count < pcp->batch << m->kernel->pcp_scale_max)
		pcp->free_count += 1 << order;
	high = high_auto(m, zone, pcp, free_high);
	if (pcp->count < high)
		return 0;
	if (free_high)
		return min_int(pcp->count, pcp->batch << m->kernel->pcp_scale_max);
	if (high < pcp->batch)
		return 1;
	return clamp_int(pcp->free_count, pcp->batch, high - pcp->batch);
}

int pcp_overflow(const struct model *m, const struct zone *zone, struct pcp *pcp, int order)
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

bool pcp_takes(const struct model *m, uint32_t head, int order)
{
	int migratetype = frame_block(m, head)->migratetype;

	return m->pcp_lists[order][migratetype] != NO_PCP_LIST &&
	       migratetype != MIGRATETYPE_ISOLATE;
}

int pcp_commit(struct model *m, struct zone *zone, uint32_t head, int order, int *list)
{
	int migratetype = frame_block(m, head)->migratetype;
	struct pcp *pcp = zone_pcp(m, zone, m->now.cpu);

	pcp->alloc_factor >>= 1;
	pcp_push(m, pcp, head, order, migratetype, migratetype, false);
	*list = m->pcp_lists[order][migratetype];
	return pcp_overflow(m, zone, pcp, order);
}

void pcp_committed(const struct model *m, struct zone *zone)
{
	static const struct request any = {.class_zone = ZONE_MOVABLE};

	if (zone->below_high && watermark_ok(m, zone, &any, zone_mark(zone, WMARK_HIGH)))
		zone->below_high = false;
}

void pcp_drain_put_off(struct model *m, struct zone *zone, struct pcp *pcp)
{
	int pages = pcp->put_off;

	if (!pages)
		return;
	pcp->put_off = 0;
	pcp->counters.drains++;
	pcp->counters.drain_pages +=
		drain(m, zone, pcp, pages, pcp->put_off_list, ZONE_LOCK_KIND_DRAIN);
	pcp_committed(m, zone);
}

void pcp_free(struct model *m, struct zone *zone, uint32_t head, int order,
	      const struct free_request *how)
{
	struct pcp *pcp = zone_pcp(m, zone, m->now.cpu);
	int pages, list;

	pcp->touched = true;
	if (how->pcp_locked || !pcp_takes(m, head, order)) {
		pcp->counters.buddy_frees++;
		pcp->counters.lock_holds++;
		pcp->counters.reserve_past_pcp +=
			m->kernel->reserve_pcp != RESERVE_PCP_MOVABLE && pcp_allowed(m, order) &&
			frame_block(m, head)->migratetype == MIGRATETYPE_RESERVE;
		buddy_free_direct(m, zone, head, order, NULL);
		zone_lock_held(m, zone, ZONE_LOCK_KIND_FREE, 1);
		return;
	}
	pages = pcp_commit(m, zone, head, order, &list);
	if (how->drain_pages >= 0)
		pages = how->drain_pages;
	if (!pages)
		return;
	pcp->put_off = pages;
	pcp->put_off_list = (uint8_t)list;
	if (!how->drain_waits)
		pcp_drain_put_off(m, zone, pcp);
}

void pcp_drain_piece(struct model *m, struct zone *zone, struct pcp *pcp, int pages)
{
	if (pcp->count <= 0 || !pages)
		return;
	zone_counters(m, zone)->drains++;
	zone_counters(m, zone)->drain_pages += drain(m, zone, pcp, pages, 0, ZONE_LOCK_KIND_DRAIN);
}

/* drain_pages: one CPU's PCPs, zone by zone. */
static void drain_cpu(struct model *m, int cpu)
{
	for (int i = 0; i < m->nr_zones; i++) {
		struct pcp *pcp = zone_pcp(m, &m->zones[i], cpu);

		while (pcp->count > 0)
			pcp_drain_piece(m, &m->zones[i], pcp, pcp_piece(m, pcp));
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
	pcp->counters.decay_pages += drain(m, zone, pcp, count, 0, ZONE_LOCK_KIND_DECAY);
}

int pcp_decay(const struct model *m, struct pcp *pcp)
{
	int excess;

	if (pcp->high > pcp->high_min)
		pcp->high = max_int(max_int(pcp->count - (pcp->batch << m->kernel->pcp_scale_max),
					    pcp->high - (pcp->high >> 3)),
				    pcp->high_min);
	excess = pcp->count - pcp->high;
	return max_int(excess, 0);
}

/* The pages a decay drains, piece by piece; whether the next tick may find more to do. */
static bool decay(struct model *m, struct zone *zone, struct pcp *pcp)
{
	int before = pcp->high, excess = pcp_decay(m, pcp);

	if (!excess)
		return pcp->high != before;
	while (excess > 0) {
		int piece = m->kernel->decay == DECAY_PIECES ? min_int(excess, pcp->batch) : excess;

		count_decay(m, zone, pcp, piece);
		excess -= piece;
	}
	return true;
}

enum pcp_expiry pcp_expire(const struct model *m, const struct zone *zone, struct pcp *pcp)
{
	if (pcp->touched)
		pcp->expire = REMOTE_EXPIRE;
	pcp->touched = false;
	if (!pcp->expire || !pcp->count)
		return PCP_STAYS;
	if (zone->node == m->cpu_nodes[pcp->cpu]) {
		pcp->expire = 0;
		return PCP_STAYS;
	}
	return --pcp->expire ? PCP_AGES : PCP_EXPIRES;
}

bool pcp_tick(struct model *m, int cpu)
{
	bool more = false;

	for (int i = 0; i < m->nr_zones; i++) {
		struct zone *zone = &m->zones[i];
		struct pcp *pcp = zone_pcp(m, zone, cpu);
		enum pcp_expiry expiry;

		vmstat_diff_fold(zone, pcp);
		if (m->kernel->decay != DECAY_NONE)
			more |= decay(m, zone, pcp);
		expiry = pcp_expire(m, zone, pcp);
		more |= expiry != PCP_STAYS;
		if (expiry == PCP_EXPIRES)
			count_decay(m, zone, pcp, pcp->batch);
	}
	return more;
}

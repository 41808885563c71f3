// SPDX-License-Identifier: Apache-2.0
/* Moves from PCPs to the free lists: drains, drain_all and the vmstat tick. */
#include "pcp.h"

#include "buddy.h"
#include "flips.h"
#include "min_max.h"
#include "vmstat_diff.h"
#include "zone_lock.h"

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

frame_nr pcp_drain_next(struct pcp_drain *d, const struct model *m)
{
	struct pcp *pcp = d->pcp;

	if (d->left <= 0 || pcp->count <= 0)
		return NO_FRAME;
	switch ((enum kernel_drain_rule)m->kernel->drain_rule) {
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
	case DRAIN_TAIL_OF_ONE:
	case DRAIN_FROM_INDEX:
		while (pcp_list_empty(m, pcp, d->list))
			d->list = (d->list + 1) % m->nr_pcp_lists;
		break;
	}
	return m->frames[pcp->heads + (uint32_t)d->list].prev;
}

/* The migratetype to which a page of a RESERVE pageblock or list drains; counts leaks. */
static int reserve_drained(const struct model *m, struct counters *counters, frame_nr head,
			   int migratetype)
{
	if (m->kernel->reserve_leaks && migratetype == MIGRATETYPE_RESERVE)
		migratetype = MIGRATETYPE_MOVABLE;
	if (frame_block(m, head)->migratetype == MIGRATETYPE_RESERVE &&
	    migratetype != MIGRATETYPE_RESERVE)
		counters->reserve_leaked += 1ull << m->frames[head].order;
	return migratetype;
}

/* The migratetype to which a page of a list drains. */
static int drained_type(const struct model *m, frame_nr head, int list)
{
	int order, migratetype;

	switch ((enum kernel_drained_type)m->kernel->drained_type) {
	case DRAINED_INDEX:
		pcp_list_of(m, list, &order, &migratetype);
		return migratetype;
	case DRAINED_BLOCK:
		return frame_block(m, head)->migratetype;
	case DRAINED_RECORDED:
		break;
	}
	return m->frames[head].pcp_migratetype;
}

void pcp_drain_take(struct pcp_drain *d, struct model *m, struct zone *zone, frame_nr head)
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

/* The entry above the last one of a list instead, if it is drawn and there is one. */
static uint32_t flip_last(const struct model *m, uint32_t last)
{
	frame_nr above = m->frames[last].prev;

	if (!flip_draw(m, FLIP_DRAIN) || above >= m->nr_frames)
		return last;
	m->flips->drawn[FLIP_DRAIN]++;
	return above;
}

/* free_pcppages_bulk: moves at least `count` pages to the buddy; returns their number. */
static uint32_t drain(struct model *m, struct zone *zone, struct pcp *pcp, int count, int list,
		      int kind)
{
	int before = pcp->count;
	uint64_t blocks = 0;
	struct pcp_drain d;
	frame_nr head;

	zone_counters(m, zone)->lock_holds++;
	zone_pcp(m, zone, m->now.cpu)->touched = true;
	pcp_drain_begin(&d, m, pcp, count, list);
	for (; (head = pcp_drain_next(&d, m)) != NO_FRAME; blocks++)
		pcp_drain_take(&d, m, zone, m->flips ? flip_last(m, head) : head);
	zone_lock_held(m, zone, kind, blocks);
	return (uint32_t)(before - pcp->count);
}

void pcp_drain_recorded(struct model *m, struct zone *zone, frame_nr head, int order,
			bool drains_on)
{
	struct pcp *pcp = zone_pcp(m, zone, m->now.cpu);
	int type = frame_block(m, head)->migratetype, list = m->pcp_lists[order][type];
	struct pcp_drain d = {.pcp = pcp, .left = 1 << order, .list = list};

	pcp->touched = true;
	pcp->alloc_factor = 0; /* frees led to the drain, and each halves it */
	pcp->counters.drains += !drains_on;
	pcp->counters.lock_holds += !drains_on;
	pcp->counters.drain_pages += 1ull << order;
	if (list == NO_PCP_LIST) {
		buddy_free_direct(m, zone, head, order, NULL);
		events_pcpu_drain(m->events, &m->now, (int64_t)frame_pfn(m, head), order, type);
	} else {
		pcp_push_head(m, pcp, head, order, type, type);
		pcp_drain_take(&d, m, zone, head);
	}
	pcp_committed(m, zone);
	if (!drains_on)
		zone_lock_held(m, zone, ZONE_LOCK_KIND_DRAIN, 1);
}

void pcp_drain_put_off(struct model *m, struct zone *zone, struct pcp *pcp)
{
	int pages = pcp->put_off;

	if (!pages)
		return;
	pcp->put_off = 0;
	pcp->counters.drains++;
	do {
		pcp->counters.drain_pages += drain(m, zone, pcp, min_int(pages, pcp->put_off_piece),
						   pcp->put_off_list, ZONE_LOCK_KIND_DRAIN);
		pages -= pcp->put_off_piece;
	} while (pages > 0 && pcp->count > 0);
	pcp_committed(m, zone);
}

void pcp_drain_piece(struct model *m, struct zone *zone, struct pcp *pcp, int pages)
{
	if (pcp->count <= 0 || !pages)
		return;
	zone_counters(m, zone)->drains++;
	zone_counters(m, zone)->drain_pages += drain(m, zone, pcp, pages, 0, ZONE_LOCK_KIND_DRAIN);
}

static void drain_cpu(struct model *m, struct zone *zone, int cpu)
{
	struct pcp *pcp = zone_pcp(m, zone, cpu);

	while (pcp->count > 0)
		pcp_drain_piece(m, zone, pcp, pcp_piece(m, pcp));
}

/* Drain the PCPs of the zones from `first` on. */
static void drain_zones(struct model *m, struct zone *first, int nr)
{
	struct moment caller = m->now;

	for (int cpu = 0; cpu < m->nr_cpus; cpu++) {
		if (!m->kernel->drain_all_remote)
			m->now = (struct moment){.ts = caller.ts, .cpu = (uint16_t)cpu};
		for (int i = 0; i < nr; i++)
			drain_cpu(m, &first[i], cpu);
	}
	m->now = caller;
}

void pcp_drain_all(struct model *m)
{
	drain_zones(m, m->zones, m->nr_zones);
}

void pcp_drain_zone(struct model *m, struct zone *zone)
{
	drain_zones(m, zone, 1);
}

static void count_decay(struct model *m, struct zone *zone, struct pcp *pcp, int count)
{
	pcp->counters.decays++;
	pcp->counters.decay_pages += drain(m, zone, pcp, count, 0, ZONE_LOCK_KIND_DECAY);
}

/* Decay a PCP, piece by piece. Returns whether the next tick may have more work. */
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

void pcp_idle_anew(struct pcp *pcp)
{
	pcp->expire = REMOTE_EXPIRE;
}

void pcp_fold(struct zone *zone, struct pcp *pcp)
{
	vmstat_diff_fold(zone, pcp);
	if (pcp->touched)
		pcp_idle_anew(pcp);
	pcp->touched = false;
}

enum pcp_expiry pcp_expire(const struct model *m, const struct zone *zone, struct pcp *pcp)
{
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

		pcp_fold(zone, pcp);
		if (m->kernel->decay != DECAY_NONE)
			more |= decay(m, zone, pcp);
		expiry = pcp_expire(m, zone, pcp);
		more |= expiry != PCP_STAYS;
		if (expiry == PCP_EXPIRES)
			count_decay(m, zone, pcp, pcp->batch);
	}
	return more;
}

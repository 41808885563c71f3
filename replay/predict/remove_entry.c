// SPDX-License-Identifier: Apache-2.0
/* The entries of PCP lists that the events show elsewhere leave the model's lists. */
#include "predict.h"

#include "model/buddy.h"
#include "model/min_max.h"
#include "model/scan_effects.h"
#include "model/zone.h"

enum { NO_REPAIR = -1 };

/* What each cause of a removal comes to. */
static const struct {
	bool emits;    /* a row of `inferred` */
	bool is_alloc; /* it counts for the size of the next refill or drain */
	bool marks;    /* the scan effects of its request, which the model has not had yet */
	bool forgets;  /* pushed[] no longer has the last free of the page */
	uint16_t list; /* of the used page: why it is used */
	int repair;    /* REPAIR_CAUSE_*, or NO_REPAIR */
} removals[] = {
	[REMOVED_FOR_ALLOC] = {.is_alloc = true, .repair = NO_REPAIR},
	[REMOVED_EARLY] =
		{
			.emits = true,
			.is_alloc = true,
			.marks = true,
			.repair = REPAIR_CAUSE_LATE_ALLOC,
		},
	[REMOVED_PREEMPTED] =
		{
			.emits = true,
			.is_alloc = true,
			.marks = true,
			.forgets = true,
			.list = AWAITS_ALLOC,
			.repair = REPAIR_CAUSE_LATE_ALLOC,
		},
	[REMOVED_UNSEEN] = {.emits = true, .list = NO_ALLOC, .repair = REPAIR_CAUSE_UNTRACED_ALLOC},
	[REMOVED_LATE_FREE] = {.forgets = true, .repair = NO_REPAIR},
};

/* The later of two rows. */
static uint64_t max_row(uint64_t one, uint64_t other)
{
	return one > other ? one : other;
}

static void emit_removal(struct validate *v, frame_nr entry, const struct removed *removed)
{
	struct inferred row = {.at = removed->at,
			       .since = max_row(removed->since, since_entry(&v->score, entry))};

	if (!removed->alloc) {
		row.kind = INFERRED_KIND_ALLOC;
		row.cpu = v->m->pcps[v->m->frames[entry].list].cpu;
		row.frame = entry;
		row.order = v->m->frames[entry].order;
		row.migratetype = removed->migratetype > MIGRATETYPE_RECLAIMABLE
					  ? MIGRATETYPE_MOVABLE
					  : (uint8_t)removed->migratetype;
	}
	emit_inferred(&v->score, row, removed->alloc);
}

void remove_entry(struct validate *v, frame_nr entry, enum removal why,
		  const struct removed *removed)
{
	struct model *m = v->m;
	struct frame *f = &m->frames[entry];
	struct pcp *pcp = &m->pcps[f->list];
	struct zone *zone = &m->zones[pcp->zone];

	if (removals[why].emits)
		emit_removal(v, entry, removed);
	if (removals[why].marks) {
		struct request rq = request_of(m, removed->alloc);

		zone_scan_effects(m, &rq, zone, false);
	}
	if (removals[why].is_alloc) {
		pcp->touched = true;
		pcp->free_count >>= 1;
		pcp->free_factor >>= 1;
	}
	pcp_remove(m, pcp, entry);
	if (why != REMOVED_FOR_ALLOC && v->gone[pcp->number] > 0)
		v->gone[pcp->number] -= min_int(1 << f->order, v->gone[pcp->number]);
	f->state = FRAME_USED;
	f->list = removals[why].list;
	if (f->list == NO_ALLOC)
		f->next = NO_FRAME;
	if (removals[why].forgets)
		v->whereabouts.pushed[entry] = 0;
	if (removals[why].repair != NO_REPAIR)
		accuracy_repair(&v->score.accuracy, zone, removals[why].repair, 1ull << f->order);
}

void take_early(struct validate *v, struct window_event *alloc)
{
	remove_entry(
		v, alloc->frame, REMOVED_EARLY,
		&(struct removed){.alloc = alloc, .since = taken_since(&v->whereabouts, alloc)});
	alloc->taken = alloc->exact = true;
}

/*
 * Whether the next event of an entry takes its page off the free lists: a drain without events put
 * it there.
 */
static bool is_drained_unseen(const struct validate *v, frame_nr entry)
{
	return rule_is_on(RULE_unseen_drains) &&
	       next_event_of(&v->whereabouts.next_events, named_at(&v->score, entry)) ==
		       NEXT_FROM_BUDDY;
}

bool take_unseen(struct validate *v, frame_nr entry, int migratetype, uint64_t at)
{
	struct zone *zone = frame_zone(v->m, entry);
	int order = v->m->frames[entry].order, type = frame_block(v->m, entry)->migratetype;
	bool drained = is_drained_unseen(v, entry);

	remove_entry(v, entry, REMOVED_UNSEEN,
		     &(struct removed){.at = at, .migratetype = migratetype});
	if (!drained)
		return false;
	emit_block(&v->score, INFERRED_KIND_FREE, entry, order, type, 0);
	buddy_free(v->m, zone, entry, order, type, NULL);
	return true;
}

void take_drained_unseen(struct validate *v, struct pcp *pcp, int most)
{
	const struct frame *f = v->m->frames;

	for (int list = 0; list < v->m->nr_pcp_lists; list++) {
		list_nr head = pcp->heads + (uint32_t)list;
		frame_nr last;

		while ((last = f[head].prev) != head && 1 << f[last].order <= most &&
		       is_drained_unseen(v, last)) {
			most -= 1 << f[last].order;
			take_unseen(v, last, frame_block(v->m, last)->migratetype, 0);
		}
	}
}

void take_preempted(struct validate *v, const struct departure *d, uint64_t at)
{
	const struct model *m = v->m;
	struct window_event alloc = event_of_departure(d, m->pcps[m->frames[d->frame].list].cpu);

	remove_entry(v, d->frame, REMOVED_PREEMPTED,
		     &(struct removed){
			     .alloc = &alloc, .at = may_be_at(d, at) ? at : 0, .since = d->since});
	v->whereabouts.preempts = true;
}

/* The list of a PCP entry, or NO_FRAME if it is not found. */
static list_nr list_of(struct validate *v, frame_nr entry)
{
	while (entry < v->m->nr_frames && may_search(&v->whereabouts))
		entry = v->m->frames[entry].prev;
	return entry < v->m->nr_frames ? NO_FRAME : entry;
}

void take_down_to(struct validate *v, frame_nr top, frame_nr entry)
{
	const struct model *m = v->m;
	uint64_t at = left_before(&v->whereabouts, top);
	list_nr list = list_of(v, top);

	for (bool last = false; !last;) {
		uint32_t next = m->frames[top].next;
		const struct departure *d = preempted_alloc(&v->whereabouts, list, top);

		last = top == entry;
		if (d)
			take_preempted(v, d, at);
		else
			take_unseen(v, top, frame_block(m, top)->migratetype, at);
		top = next;
	}
}

void take_buried(struct validate *v, frame_nr entry)
{
	const struct model *m = v->m;
	frame_nr top = entry, above;

	while ((above = m->frames[top].prev) < m->nr_frames && !v->whereabouts.pushed[above])
		top = above;
	take_down_to(v, top, entry);
}

bool take_inferred(struct validate *v, const struct window_event *event, struct pcp *pcp,
		   frame_nr entry, int migratetype)
{
	int order = v->m->frames[entry].order;
	struct window_event *alloc = find_alloc(&v->whereabouts, event, entry, order, LATE_WITHIN);
	const struct departure *d;

	if (alloc) {
		take_early(v, alloc);
		return true;
	}
	d = preempted_alloc(&v->whereabouts, pcp_list(v->m, pcp, order, migratetype), entry);
	if (d) {
		take_preempted(v, d, 0);
		return true;
	}
	return take_unseen(v, entry, migratetype, 0) || is_freed_next(&v->whereabouts, entry);
}

void put_off(struct validate *v, const struct window_event *free)
{
	emit_block(&v->score, INFERRED_KIND_UNDONE_FREE, free->frame, free->order,
		   frame_block(v->m, free->frame)->migratetype, free->at);
	accuracy_repair(&v->score.accuracy, frame_zone(v->m, free->frame), REPAIR_CAUSE_LATE_FREE,
			1ull << free->order);
}

bool take_back(struct validate *v, struct doubtful_free *d)
{
	if (!d)
		return false;
	remove_entry(v, d->free.frame, REMOVED_LATE_FREE, NULL);
	wait_for_doubtful(&v->whereabouts, d);
	put_off(v, &d->free);
	return true;
}

void take_preempted_below(struct validate *v, list_nr list, frame_nr page)
{
	const struct departure *d;

	while ((d = preempted_below(&v->whereabouts, list, page)))
		take_preempted(v, d, 0);
}

/*
 * A PCP should have drained and did not. If the kernel preempts, take a page that a preempted task
 * may have taken.
 */
static void take_likely_preempted(struct validate *v, const struct pcp *pcp)
{
	const struct departure *d = likely_preempted(&v->whereabouts, pcp);

	if (d)
		take_preempted(v, d, left_before(&v->whereabouts, d->frame));
}

/* Top entries of the lists whose next event is a free, and soon. */
static void take_freed_next(struct validate *v, struct pcp *pcp)
{
	struct model *m = v->m;

	for (int type = MIGRATETYPE_UNMOVABLE; type <= MIGRATETYPE_RECLAIMABLE; type++) {
		list_nr list = pcp_list(m, pcp, 0, type), next;
		int left = FIRST_ENTRIES;

		for (frame_nr entry = m->frames[list].next; entry != list && left--; entry = next) {
			next = m->frames[entry].next;
			if (is_freed_next(&v->whereabouts, entry) &&
			    !is_just_freed(&v->whereabouts, entry))
				take_unseen(v, entry, type, 0);
		}
	}
}

bool take_proved(struct validate *v, struct pcp *pcp)
{
	static const uint8_t types[] = {MIGRATETYPE_MOVABLE, MIGRATETYPE_UNMOVABLE,
					MIGRATETYPE_RECLAIMABLE};
	int before = pcp->count;

	if (!rule_is_on(RULE_proved))
		return false;
	if (is_size_unknown(&v->score, &v->m->zones[pcp->zone]))
		return false;
	for (int i = 0; i < 3 && pcp->count == before; i++) {
		frame_nr entry = find_departed(&v->whereabouts, pcp, types[i]);

		if (entry != NO_FRAME)
			take_unseen(v, entry, types[i], left_before(&v->whereabouts, entry));
	}
	if (pcp->count == before)
		take_freed_next(v, pcp);
	if (pcp->count == before)
		take_back(v, latest_doubtful_free(&v->whereabouts, pcp));
	if (pcp->count == before)
		take_likely_preempted(v, pcp);
	return pcp->count < before;
}

void settle_interrupted(struct validate *v, const struct window_event *event)
{
	struct window_event *alloc = interrupted_alloc(&v->whereabouts, event);

	if (alloc)
		take_early(v, alloc);
}

void saw_pcp_page(struct validate *v, const struct window_event *event)
{
	struct zone *zone = frame_zone(v->m, event->frame);
	uint64_t pages = 1ull << event->order;

	if (place_of(v->m, event->frame) == PLACE_UNKNOWN && pcp_allowed(v->m, event->order))
		zone->pcp_unseen -= zone->pcp_unseen < pages ? zone->pcp_unseen : pages;
}

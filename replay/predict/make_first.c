// SPDX-License-Identifier: Apache-2.0
/* The recorded page is made the first of its list: what the model has before it. */
#include "predict.h"

#include "model/buddy.h"
#include "model/force_state.h"

/*
 * Whether the kernel may have reported a free chunk to the hypervisor, which no event shows: a pass
 * takes up to 32 chunks off the lists, makes their pageblocks MOVABLE, and gives the chunks back to
 * the tails, the last one first (page_reporting_cycle, __isolate_free_page, 5.7 to 7.3).
 */
static bool may_be_reported(const struct validate *v, int order)
{
	return order >= v->m->pageblock_order && !v->run.load.recorded_compactions.nr_running;
}

void take_vanished(struct validate *v, struct zone *zone, frame_nr chunk)
{
	struct frame *f = &v->m->frames[chunk];

	if (may_be_reported(v, f->order) && f->list <= MIGRATETYPE_RECLAIMABLE &&
	    f->list != MIGRATETYPE_MOVABLE) {
		emit_block(&v->score, INFERRED_KIND_RETYPED, chunk, f->order, MIGRATETYPE_MOVABLE,
			   0);
		retype_blocks(v->m, chunk, f->order, MIGRATETYPE_MOVABLE);
		return;
	}
	emit_isolated(&v->score, chunk, f->order);
	free_list_del(v->m, zone, chunk);
	f->state = FRAME_USED;
	f->list = ISOLATED;
	no_guess(&v->score, chunk);
	accuracy_repair(&v->score.accuracy, zone, REPAIR_CAUSE_ISOLATED, 1ull << f->order);
}

/* The next event of a chunk, if that takes it off the free lists; else NULL. */
static const struct window_event *next_taking(const struct validate *v, frame_nr chunk)
{
	const struct window_event *event = window_find_frame(&v->window, NULL, chunk);

	return event && event->kind == EVENT_KIND_ALLOC_ZONE_LOCKED ? event : NULL;
}

/*
 * Whether 2^order pages from `head`, used in the model at least in part, are free: their next
 * events take them off the free lists.
 */
static bool is_free_unrecorded(const struct validate *v, frame_nr head, int order)
{
	const struct model *m = v->m;
	bool proved = false;
	frame_nr frame = block_head(m, head);

	for (; frame < head + (1u << order); frame += 1u << m->frames[frame].order) {
		if (m->frames[frame].state == FRAME_FREE)
			continue;
		if (m->frames[frame].state == FRAME_PCP || !next_taking(v, frame))
			return false;
		proved = true;
	}
	return proved && frame == head + (1u << order);
}

/*
 * A free chunk is missing from its recorded list. If its buddy was freed without an event, the two
 * are one chunk of a higher order. Otherwise it is not free any more.
 */
static void resolve_phantom(struct validate *v, struct zone *zone, frame_nr chunk, int type)
{
	struct model *m = v->m;
	int order = m->frames[chunk].order;
	frame_nr buddy = chunk ^ (1u << order);

	if (order == m->max_order || !next_taking(v, chunk) || frame_zone(m, buddy) != zone ||
	    !is_free_unrecorded(v, buddy, order)) {
		take_vanished(v, zone, chunk);
		return;
	}
	emit_block(&v->score, INFERRED_KIND_FREE, buddy, order, type, 0);
	force_used(m, buddy, order);
	buddy_put(m, zone, buddy, order, type, NULL);
	accuracy_repair(&v->score.accuracy, zone, REPAIR_CAUSE_MISSED_FREE, 1ull << order);
}

/* The kernel found the lists of a type empty from `least` to below `order`. */
static void empty_lists(struct validate *v, struct zone *zone, int least, int order, int type)
{
	int left = PHANTOMS;

	for (int o = least; o < order; o++) {
		list_nr list = free_list(zone, o, type);

		while (!list_empty(v->m->frames, list) && left-- > 0)
			resolve_phantom(v, zone, v->m->frames[list].next, type);
	}
}

/* The entries of a list before `chunk` go to its tail, the last one first. */
static void give_back(struct model *m, list_nr list, frame_nr chunk)
{
	struct frame *f = m->frames;

	for (frame_nr entry = f[chunk].prev, before; entry != list; entry = before) {
		before = f[entry].prev;
		list_del(f, entry);
		list_add_tail(f, list, entry);
	}
}

void turn_list(struct validate *v, list_nr list, frame_nr chunk, int behind)
{
	enum { FEW = 16, MOST_REPORTED = 32 /* PAGE_REPORTING_CAPACITY */ };
	const struct frame *f = v->m->frames;
	int before = 0, order = f[chunk].order, type = f[chunk].list;

	for (frame_nr entry = f[list].next; entry != chunk && before <= MOST_REPORTED;
	     entry = f[entry].next)
		before++;
	if (before > FEW)
		emit_cut(&v->score, chunk, behind);
	for (frame_nr entry = f[list].next; entry != chunk && before <= FEW; entry = f[entry].next)
		emit_block(&v->score, INFERRED_KIND_MOVED, entry, order, type, 0);
	if (before <= MOST_REPORTED && may_be_reported(v, order))
		give_back(v->m, list, chunk);
	else if (before)
		rotate_list(v->m, list, chunk);
}

/*
 * The most that a free chunk may have been when the kernel took a page of it. The lists of smaller
 * orders were empty, unless their first entry is taken later; and the other half of the chunk,
 * which goes onto such a list, is taken before that entry.
 */
static int most_order(const struct validate *v, const struct zone *zone, const struct pick *pick,
		      const struct frame *chunk)
{
	const struct model *m = v->m;

	for (int order = pick->order; order < chunk->order; order++) {
		frame_nr first = m->frames[free_list(zone, order, chunk->list)].next, half;
		const struct window_event *taking, *other;

		if (!zone->nr_free[order][chunk->list])
			continue;
		half = (pick->frame & ~((1u << order) - 1)) ^ (1u << order);
		taking = next_taking(v, first);
		other = next_taking(v, half);
		if (taking && !(other && other->at < taking->at) &&
		    !is_free_unrecorded(v, first ^ (1u << order), order))
			return order;
	}
	return chunk->order;
}

/* 2^order pages of a free chunk left the lists without an event. */
static void take_part(struct validate *v, struct zone *zone, frame_nr head, int order)
{
	emit_isolated(&v->score, head, order);
	force_used(v->m, head, order);
	v->m->frames[head].list = ISOLATED;
	accuracy_repair(&v->score.accuracy, zone, REPAIR_CAUSE_ISOLATED, 1ull << order);
}

/* The parts of a free chunk beside 2^order pages around `frame` left the lists without an event. */
static void take_beside(struct validate *v, struct zone *zone, frame_nr frame, int order)
{
	const struct model *m = v->m;

	while (m->frames[block_head(m, frame)].order > order) {
		int half = m->frames[block_head(m, frame)].order - 1;

		take_part(v, zone, (frame & ~((1u << half) - 1)) ^ (1u << half), half);
	}
}

uint32_t chunk_of_fallback(const struct validate *v, const struct window_event *extfrag)
{
	const struct model *m = v->m;
	uint32_t found = NO_FRAME, head = extfrag->frame, end = head + 1;

	if (extfrag->owner && extfrag->fallback_order < m->pageblock_order) {
		head = block_start(m, head);
		end = block_end(m, head);
	}
	for (; head < end; head += 1u << m->frames[head].order) {
		const struct frame *f = &m->frames[head];

		if (f->state != FRAME_FREE || f->order != extfrag->fallback_order ||
		    f->list != extfrag->fallback_migratetype)
			continue;
		if (found != NO_FRAME)
			return NO_FRAME;
		found = head;
	}
	return found;
}

/*
 * The kernel used another chunk for a fallback than the model, which had `expected` first. That
 * chunk was behind on the same list; on a list that comes first, it is not free any more.
 */
static void settle_fallback(struct validate *v, struct zone *zone, const struct pick *pick,
			    frame_nr frame)
{
	struct model *m = v->m;
	frame_nr chunk = chunk_of_fallback(v, pick->extfrag), expected;

	if (m->kernel->fallback < FALLBACK_CLAIM_OR_SPLIT || frame == NO_FRAME || chunk == NO_FRAME)
		return;
	expected = block_head(m, frame);
	if (pick->extfrag->owner || (m->frames[expected].order == m->frames[chunk].order &&
				     m->frames[expected].list == m->frames[chunk].list))
		turn_list(v, free_list(zone, m->frames[chunk].order, m->frames[chunk].list), chunk,
			  0);
	else if (m->frames[expected].state == FRAME_FREE)
		take_vanished(v, zone, expected);
}

void make_first(struct validate *v, struct zone *zone, const struct pick *pick, frame_nr frame)
{
	struct model *m = v->m;
	frame_nr chunk = block_head(m, pick->frame), list, entry, next;
	const struct frame *f = &m->frames[chunk];
	int type, left = FIRST_ENTRIES;

	if (!rule_is_on(RULE_make_first))
		return;
	if (pick->extfrag) {
		if (!v->prediction.fallback && pick->migratetype <= MIGRATETYPE_RECLAIMABLE)
			empty_lists(v, zone, pick->order, m->max_order + 1, pick->migratetype);
		else
			settle_fallback(v, zone, pick, frame);
		return;
	}
	if (f->state != FRAME_FREE || frame_zone(m, chunk) != zone)
		return;
	/* The event has the list's type, which is the pageblock's. */
	if (f->list != pick->migratetype && m->kernel->zone_locked == ZONE_LOCKED_LIST &&
	    m->kernel->drained_type == DRAINED_BLOCK) {
		emit_block(&v->score, INFERRED_KIND_RETYPED, chunk, f->order, pick->migratetype, 0);
		retype_block(m, pick->frame, pick->migratetype);
	}
	type = f->list;
	/* The page was a chunk of its own, so its buddy was not free. */
	if (chunk != pick->frame) {
		take_part(v, zone, pick->frame ^ (1u << pick->order), pick->order);
		return;
	}
	take_beside(v, zone, pick->frame, most_order(v, zone, pick, f));
	chunk = block_head(m, pick->frame);
	f = &m->frames[chunk];
	empty_lists(v, zone, pick->order, f->order, type);
	/* A buddy that was freed without an event may have merged with the chunk. */
	if (block_head(m, chunk) != chunk)
		return;
	list = free_list(zone, f->order, type);
	for (entry = m->frames[list].next; entry != chunk && left--; entry = next) {
		next = m->frames[entry].next;
		if (is_freed_next(&v->whereabouts, entry))
			take_vanished(v, zone, entry);
	}
	turn_list(v, list, chunk, f->order == pick->order ? v->nr_picked : 0);
}

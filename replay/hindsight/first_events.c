// SPDX-License-Identifier: Apache-2.0
/* The first event of each page, which shows where the page was at the start. */
#include "hindsight_run.h"

#include "model/buddy.h"
#include "model/force_state.h"

/* A page of a pageblock was on a list of that type. */
static void note_type(struct hindsight *h, const struct seen *s, struct start_block *block,
		      int type, enum evidence evidence)
{
	/* From then on, its free pages are on the lists of the block's type. */
	if (h->m->kernel->drained_type == DRAINED_BLOCK)
		evidence = FROM_BLOCK;
	if (block->claimed || block->evidence >= evidence)
		return;
	/* Requests take CMA pages as MOVABLE ones. */
	if (block->migratetype == MIGRATETYPE_CMA && type == MIGRATETYPE_MOVABLE)
		return;
	block->evidence = (uint8_t)evidence;
	block->migratetype = (uint8_t)type;
	block->row = s->row;
	block->cpu = s->cpu;
}

static struct start_block *block_of(struct hindsight *h, frame_nr frame)
{
	return &h->blocks[frame >> h->m->pageblock_order];
}

/*
 * The pages of an event that have no earlier one were at `place` at the start. Returns whether all
 * were.
 */
static bool note_place(struct hindsight *h, frame_nr frame, int order, enum first_place place)
{
	bool all = true;

	for (uint32_t f = frame; f < frame + (1u << order); f++) {
		if (h->first[f].place == FIRST_UNSEEN)
			h->first[f].place = (uint8_t)place;
		else
			all = false;
	}
	return all;
}

/* A block left a PCP list: if it has no earlier event, it was there at the start. */
static void note_pcp(struct hindsight *h, const struct seen *s)
{
	bool on_pcp = h->m->pcp_lists[s->order][s->migratetype] != NO_PCP_LIST;

	if (note_place(h, s->frame, s->order, on_pcp ? FIRST_PCP : FIRST_USED) && on_pcp)
		h->first[s->frame].entry = true;
}

/*
 * A free page of the snapshot is freed, although nothing took it off its list. Compaction takes
 * free pages without an event. Before the first compaction, the snapshot is older than the use.
 */
static void note_free(struct hindsight *h, const struct seen *s)
{
	const struct recorded_compactions *c = &h->run.load.recorded_compactions;
	bool compacted = c->nr && c->rows[0].at <= s->row;
	enum first_place open = h->counts_only ? FIRST_FREED : FIRST_USED;

	for (uint32_t f = s->frame; f < s->frame + (1u << s->order); f++) {
		if (h->first[f].place != FIRST_UNSEEN)
			continue;
		if (compacted && place_of(h->m, f) == PLACE_FREE)
			h->first[f].place = FIRST_FREE;
		else
			h->first[f].place = (uint8_t)(compacted ? open : FIRST_USED);
	}
}

/*
 * A fallback took a chunk of another type. Where alloc_zone_locked comes first and has the type
 * that was asked for, that event showed a wrong type.
 */
static void note_fallback(struct hindsight *h, const struct seen *s)
{
	int order = s->owner && s->fallback_order > h->m->pageblock_order ? s->fallback_order : 0;
	uint32_t first = s->frame & ~((1u << order) - 1);

	for (uint32_t f = first; f < first + (1u << order); f = block_end(h->m, f)) {
		struct start_block *block = block_of(h, f);

		if (block->evidence && !block->claimed && block->cpu == s->cpu &&
		    block->row + 1 == h->last_rows[s->cpu])
			block->evidence = GUESSED;
		note_type(h, s, block, s->fallback_migratetype, FROM_LIST);
		if (s->owner)
			block->claimed = true;
	}
}

/*
 * Whether the event of a fallback has the chunk. Since 6.9, it has the page that the request got,
 * which may be another one of the pageblock (steal_suitable_fallback, try_to_claim_block).
 */
static bool shows_chunk(const struct hindsight *h, const struct seen *s)
{
	enum kernel_fallback fallback = h->m->kernel->fallback;

	return (fallback == FALLBACK_MOVE || fallback == FALLBACK_REMAINDERS_OLD) &&
	       !(s->frame & ((1u << s->fallback_order) - 1));
}

void note_first(struct hindsight *h, const struct seen *s)
{
	struct first_event *f = &h->first[s->frame];
	enum kernel_drained_type drained_type = h->m->kernel->drained_type;
	bool freed = f->freed;

	f->freed = s->kind == EVENT_KIND_FREE;
	switch (s->kind) {
	case EVENT_KIND_ALLOC_ZONE_LOCKED:
		note_place(h, s->frame, s->order, FIRST_FREE);
		note_type(h, s, block_of(h, s->frame), s->migratetype, FROM_LIST);
		break;
	case EVENT_KIND_ALLOC_EXTFRAG:
		note_place(h, s->frame, shows_chunk(h, s) ? s->fallback_order : s->order,
			   FIRST_FREE);
		note_fallback(h, s);
		break;
	case EVENT_KIND_ALLOC:
		/* The free put the page onto the list of its block's type; U, M or R. */
		if (freed && frame_block(h->m, s->frame)->migratetype <= MIGRATETYPE_RECLAIMABLE)
			note_type(h, s, block_of(h, s->frame), s->migratetype, FROM_BLOCK);
		note_pcp(h, s);
		break;
	case EVENT_KIND_PCPU_DRAIN:
		if (drained_type == DRAINED_BLOCK || (drained_type == DRAINED_RECORDED && freed))
			note_type(h, s, block_of(h, s->frame), s->migratetype, FROM_BLOCK);
		note_pcp(h, s);
		break;
	case EVENT_KIND_FREE:
	case EVENT_KIND_FREE_BATCHED:
		note_free(h, s);
		break;
	}
	h->last_rows[s->cpu] = s->row + 1;
}

// SPDX-License-Identifier: Apache-2.0
/* The findings of validate: misses and pending misses, inferred rows. */
#include "score.h"

static void note_divergence(struct score *s, const struct miss *miss)
{
	s->divergence.known = true;
	s->divergence.miss = *miss;
	s->divergence.event = *miss->event;
	s->divergence.miss.event = &s->divergence.event;
	if (s->observer)
		s->observer->missed(s->observer->self, s, miss);
}

static void forget_divergence(struct score *s)
{
	s->divergence.known = s->divergence.repaired = false;
	s->divergence.pending_miss = NULL;
	if (s->observer)
		s->observer->forgotten(s->observer->self);
}

void missed(struct score *s, const struct miss *miss)
{
	accuracy_miss(&s->accuracy, miss);
	if (!s->divergence.known)
		note_divergence(s, miss);
}

void repaired(struct score *s)
{
	if (!s->divergence.known || s->divergence.repaired)
		return;
	s->divergence.repaired = true;
	if (s->observer)
		s->observer->repaired(s->observer->self, s);
}

void count_size(struct score *s, const struct window_event *event, struct zone *zone,
		const struct size_check *check)
{
	struct miss miss = {
		.event = event,
		.zone = zone,
		.decision = check->decision,
		.cause = REPAIR_CAUSE_PARAMETER,
		.order = event->order,
		.migratetype = event->migratetype,
		.expected = (uint64_t)check->expected,
		.got = (uint64_t)check->got,
		.place = PLACE_PCP,
	};

	if (check->exact) {
		accuracy_count(&s->accuracy, zone, check->decision, EXACT);
	} else if (is_size_unknown(s, zone)) {
		accuracy_count(&s->accuracy, zone, check->decision, UNKNOWN);
	} else {
		missed(s, &miss);
		accuracy_repair(&s->accuracy, zone, REPAIR_CAUSE_PARAMETER, (uint64_t)check->got);
	}
}

/*
 * A pending miss, refuted if the pages before it were taken without an event: their frees prove
 * that, or the number of pages that the recorder counted.
 */
struct pending_miss *new_pending_miss(struct score *s, const struct miss *miss,
				      const struct pcp *pcp)
{
	struct pending_miss *pending_miss = s->free_pending_miss;

	if (!pending_miss)
		return NULL;
	s->free_pending_miss = pending_miss->next;
	*pending_miss = (struct pending_miss){
		.open = true,
		.pcp = (uint32_t)(pcp - s->m->pcps),
		.miss = *miss,
		.event = *miss->event,
	};
	pending_miss->miss.event = &pending_miss->event;
	s->open_misses[pending_miss->pcp]++;
	if (!s->divergence.known) {
		s->divergence.pending_miss = pending_miss;
		note_divergence(s, miss);
	}
	return pending_miss;
}

static void close_pending_miss(struct score *s, struct pending_miss *pending_miss)
{
	pending_miss->open = false;
	s->open_misses[pending_miss->pcp]--;
}

static void refute(struct score *s, struct pending_miss *pending_miss)
{
	if (!pending_miss->open)
		return;
	close_pending_miss(s, pending_miss);
	accuracy_count(&s->accuracy, pending_miss->miss.zone, DECISION_ALLOC, EXACT);
	s->alloc_inferred++;
	if (s->divergence.pending_miss == pending_miss)
		forget_divergence(s);
}

void prove_pending_misses(struct score *s, const struct pcp *pcp)
{
	const uint32_t of = (uint32_t)(pcp - s->m->pcps);

	for (int i = 0; s->open_misses[of] && i < MAX_PENDING_MISSES; i++)
		if (s->pending_misses[i].pcp == of)
			refute(s, &s->pending_misses[i]);
}

/* Settle one page of a pending miss; the last page decides. */
static void settle_pending_miss(struct score *s, struct pending_miss *pending_miss)
{
	if (!pending_miss->waiting || --pending_miss->waiting)
		return;
	refute(s, pending_miss);
	pending_miss->next = s->free_pending_miss;
	s->free_pending_miss = pending_miss;
}

void confirm_miss(struct score *s, struct pending_miss *pending_miss)
{
	if (!pending_miss->open)
		return;
	close_pending_miss(s, pending_miss);
	if (s->divergence.pending_miss == pending_miss)
		s->divergence.pending_miss = NULL;
	missed(s, &pending_miss->miss);
}

void resolve_pending_miss(struct score *s, frame_nr frame, bool proof)
{
	struct frame *f = &s->m->frames[frame];
	struct pending_miss *pending_miss;

	if (f->list != NO_ALLOC)
		return;
	f->list = 0;
	if (f->next >=
	    MAX_PENDING_MISSES) /* none, or the page has been part of other blocks since */
		return;
	pending_miss = &s->pending_misses[f->next];
	if (!proof)
		confirm_miss(s, pending_miss);
	settle_pending_miss(s, pending_miss);
}

/* Write a row if the request of `row` first asked the page's node instead of the CPU's. */
static void emit_landed(struct score *s, struct inferred row, uint8_t flags)
{
	const struct window_event alloc = {
		.frame = row.frame,
		.gfp_flags = row.gfp_flags,
		.cpu = row.cpu,
		.flags = flags,
		.order = row.order,
		.migratetype = row.migratetype,
	};

	if (row.gfp_flags & GFP_THISNODE ||
	    node_preference_node(s->m, &alloc) == s->m->cpu_nodes[alloc.cpu])
		return;
	row.kind = INFERRED_KIND_LANDED;
	row.fields = 0;
	inferred_write(s->inferred, s->m, &row);
}

void emit_inferred(struct score *s, struct inferred row, const struct window_event *alloc)
{
	bool over = s->window->done == s->window->arrived;
	const struct window_event *running = window_at(s->window, s->window->done - over);

	row.at = row.at ? row.at : running->at;
	row.ts = running->ts;
	row.pid = row.pid ? row.pid : running->pid;
	row.event_row = UINT64_MAX;
	if (alloc) {
		row.kind = row.kind ? row.kind : INFERRED_KIND_EARLY_ALLOC;
		row.event_row = alloc->at;
		row.pid = alloc->pid;
		row.cpu = alloc->cpu;
		row.frame = alloc->frame;
		row.order = alloc->order;
		row.migratetype = alloc->migratetype;
		row.gfp_flags = alloc->gfp_flags;
	}
	if (alloc || row.kind == INFERRED_KIND_ALLOC || row.kind == INFERRED_KIND_REFILL)
		emit_landed(s, row, alloc ? alloc->flags : 0);
	/* Compaction fills the block with movable pages, as in a free run. */
	if (row.kind == INFERRED_KIND_ISOLATED)
		page_contents_event(&s->contents, s->m, EVENT_KIND_ALLOC, row.frame, row.order,
				    MIGRATETYPE_MOVABLE);
	inferred_write(s->inferred, s->m, &row);
	note_named(s, row.frame, row.at);
}

void emit_asked_node(struct score *s, const struct window_event *alloc)
{
	if (frame_zone(s->m, alloc->frame)->node == s->m->cpu_nodes[alloc->cpu])
		return;
	emit_landed(s,
		    (struct inferred){
			    .at = alloc->at,
			    .ts = alloc->ts,
			    .pid = alloc->pid,
			    .cpu = alloc->cpu,
			    .frame = alloc->frame,
			    .order = alloc->order,
			    .migratetype = alloc->migratetype,
			    .gfp_flags = alloc->gfp_flags,
		    },
		    alloc->flags);
}

void emit_block(struct score *s, int kind, frame_nr head, int order, int migratetype, uint64_t at)
{
	bool moves = kind == INFERRED_KIND_ISOLATED || (kind == INFERRED_KIND_FREE && !at);

	emit_inferred(s,
		      (struct inferred){
			      .at = at,
			      .since = moves ? since_block(s, head, order) : 0,
			      .kind = (uint8_t)kind,
			      .cpu = s->m->now.cpu,
			      .frame = head,
			      .order = (uint8_t)order,
			      .migratetype = (uint8_t)migratetype,
		      },
		      NULL);
}

void emit_isolated(struct score *s, frame_nr head, int order)
{
	emit_block(s, INFERRED_KIND_ISOLATED, head, order,
		   s->m->frames[block_head(s->m, head)].list, 0);
}

void emit_cut(struct score *s, frame_nr first, int behind)
{
	const struct frame *f = &s->m->frames[first];

	emit_inferred(s,
		      (struct inferred){
			      .kind = INFERRED_KIND_CUT,
			      .cpu = s->m->now.cpu,
			      .frame = first,
			      .order = f->order,
			      .migratetype = f->list,
			      .behind = (uint8_t)(behind < UINT8_MAX ? behind : UINT8_MAX),
		      },
		      NULL);
}

void emit_early_alloc(struct score *s, const struct window_event *alloc)
{
	emit_inferred(s, (struct inferred){0}, alloc);
}

void emit_direct(struct score *s, const struct window_event *alloc, uint64_t at)
{
	emit_inferred(s, (struct inferred){.at = at, .kind = INFERRED_KIND_DIRECT_ALLOC}, alloc);
}

// SPDX-License-Identifier: Apache-2.0
/* The findings of validate: misses and pending misses, inferred rows. */
#include "predict.h"

static void note_divergence(struct validate *v, const struct miss *miss)
{
	v->divergence.known = true;
	v->divergence.miss = *miss;
	v->divergence.event = *miss->event;
	v->divergence.miss.event = &v->divergence.event;
	if (v->config.observer)
		v->config.observer->missed(v->config.observer->self, v, miss);
}

static void forget_divergence(struct validate *v)
{
	v->divergence.known = v->divergence.repaired = false;
	v->divergence.pending_miss = NULL;
	if (v->config.observer)
		v->config.observer->forgotten(v->config.observer->self);
}

void missed(struct validate *v, const struct miss *miss)
{
	accuracy_miss(&v->accuracy, miss);
	if (!v->divergence.known)
		note_divergence(v, miss);
}

void repaired(struct validate *v)
{
	if (!v->divergence.known || v->divergence.repaired)
		return;
	v->divergence.repaired = true;
	if (v->config.observer)
		v->config.observer->repaired(v->config.observer->self, v);
}

void count_size(struct validate *v, const struct window_event *event, struct zone *zone,
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
		accuracy_count(&v->accuracy, zone, check->decision, EXACT);
	} else if (is_size_unknown(v, zone)) {
		accuracy_count(&v->accuracy, zone, check->decision, UNKNOWN);
	} else {
		missed(v, &miss);
		accuracy_repair(&v->accuracy, zone, REPAIR_CAUSE_PARAMETER, (uint64_t)check->got);
	}
}

/*
 * A pending miss, refuted if the pages before it were taken without an event; their frees prove
 * that.
 */
struct pending_miss *new_pending_miss(struct validate *v, const struct miss *miss)
{
	struct pending_miss *pending_miss = v->free_pending_miss;

	if (!pending_miss)
		return NULL;
	v->free_pending_miss = pending_miss->next;
	*pending_miss = (struct pending_miss){.open = true, .miss = *miss, .event = *miss->event};
	pending_miss->miss.event = &pending_miss->event;
	if (!v->divergence.known) {
		v->divergence.pending_miss = pending_miss;
		note_divergence(v, miss);
	}
	return pending_miss;
}

/* Settle one page of a pending miss; the last page decides. */
static void settle_pending_miss(struct validate *v, struct pending_miss *pending_miss)
{
	if (!pending_miss->waiting || --pending_miss->waiting)
		return;
	if (pending_miss->open) {
		accuracy_count(&v->accuracy, pending_miss->miss.zone, DECISION_ALLOC, EXACT);
		v->totals.alloc_inferred++;
		if (v->divergence.pending_miss == pending_miss)
			forget_divergence(v);
	}
	pending_miss->next = v->free_pending_miss;
	v->free_pending_miss = pending_miss;
	pending_miss->open = false;
}

void confirm_miss(struct validate *v, struct pending_miss *pending_miss)
{
	if (!pending_miss->open)
		return;
	pending_miss->open = false;
	if (v->divergence.pending_miss == pending_miss)
		v->divergence.pending_miss = NULL;
	missed(v, &pending_miss->miss);
}

void resolve_pending_miss(struct validate *v, uint32_t frame, bool proof)
{
	struct frame *f = &v->m->frames[frame];
	struct pending_miss *pending_miss;

	if (f->list != NO_ALLOC)
		return;
	f->list = 0;
	if (f->next >=
	    MAX_PENDING_MISSES) /* none, or the page has been part of other blocks since */
		return;
	pending_miss = &v->pending_misses[f->next];
	if (!proof)
		confirm_miss(v, pending_miss);
	settle_pending_miss(v, pending_miss);
}

/* Write a row if the request of `row` first asked the page's node instead of the CPU's. */
static void emit_landed(struct validate *v, struct inferred row, uint8_t flags)
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
	    node_preference_node(v->m, &alloc) == v->m->cpu_nodes[alloc.cpu])
		return;
	row.kind = INFERRED_KIND_LANDED;
	row.fields = 0;
	inferred_write(v->inferred, v->m, &row);
}

void emit_inferred(struct validate *v, struct inferred row, const struct window_event *alloc)
{
	bool over = v->window.done == v->window.arrived;
	const struct window_event *running = window_at(&v->window, v->window.done - over);

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
		emit_landed(v, row, alloc ? alloc->flags : 0);
	/* Compaction fills the block with movable pages, as in a free run. */
	if (row.kind == INFERRED_KIND_ISOLATED)
		page_contents_event(&v->contents, v->m, EVENT_KIND_ALLOC, row.frame, row.order,
				    MIGRATETYPE_MOVABLE);
	inferred_write(v->inferred, v->m, &row);
	note_named(v, row.frame, row.at);
}

void emit_asked_node(struct validate *v, const struct window_event *alloc)
{
	emit_landed(v,
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

void emit_block(struct validate *v, int kind, uint32_t head, int order, int migratetype,
		uint64_t at)
{
	bool moves = kind == INFERRED_KIND_ISOLATED || (kind == INFERRED_KIND_FREE && !at);

	emit_inferred(v,
		      (struct inferred){
			      .at = at,
			      .since = moves ? since_block(v, head, order) : 0,
			      .kind = (uint8_t)kind,
			      .cpu = v->m->now.cpu,
			      .frame = head,
			      .order = (uint8_t)order,
			      .migratetype = (uint8_t)migratetype,
		      },
		      NULL);
}

void emit_isolated(struct validate *v, uint32_t head, int order)
{
	emit_block(v, INFERRED_KIND_ISOLATED, head, order,
		   v->m->frames[block_head(v->m, head)].list, 0);
}

void emit_cut(struct validate *v, uint32_t first, int behind)
{
	const struct frame *f = &v->m->frames[first];

	emit_inferred(v,
		      (struct inferred){
			      .kind = INFERRED_KIND_CUT,
			      .cpu = v->m->now.cpu,
			      .frame = first,
			      .order = f->order,
			      .migratetype = f->list,
			      .behind = (uint8_t)(behind < UINT8_MAX ? behind : UINT8_MAX),
		      },
		      NULL);
}

void emit_early(struct validate *v, const struct window_event *alloc)
{
	emit_inferred(v, (struct inferred){0}, alloc);
}

void emit_direct(struct validate *v, const struct window_event *alloc, uint64_t at)
{
	emit_inferred(v, (struct inferred){.at = at, .kind = INFERRED_KIND_DIRECT_ALLOC}, alloc);
}

// SPDX-License-Identifier: Apache-2.0
/*
 * What recorded compaction does between events: blocks that it isolates, captures and gives back.
 */
#include "predict.h"

#include "model/force_state.h"

static void mark_isolated(struct model *m, const struct compactor *task, frame_nr frame, int order)
{
	m->frames[frame].list = ISOLATED;
	m->frames[frame].next = task->run;
	m->frames[frame].prev = (uint32_t)order;
}

static void isolated(void *self, const struct compactor *task, frame_nr head, int order,
		     int migratetype)
{
	struct validate *v = self;

	no_guess(&v->score, head);
	for (uint32_t i = 0; i < 1u << order; i++)
		mark_isolated(v->m, task, head + i, order);
	emit_inferred(&v->score,
		      (struct inferred){
			      .kind = INFERRED_KIND_ISOLATED,
			      .cpu = v->m->now.cpu,
			      .pid = task->pid,
			      .frame = head,
			      .order = (uint8_t)order,
			      .migratetype = (uint8_t)migratetype,
		      },
		      NULL);
}

static void cut(void *self, const struct compactor *task, uint32_t first)
{
	struct validate *v = self;

	emit_cut(&v->score, first, 0);
}

static int left(void *self, frame_nr head)
{
	const struct validate *v = self;

	return left_for_compaction(&v->whereabouts, head);
}

static void followed(void *self, struct zone *zone, uint64_t pages, bool exactly)
{
	struct validate *v = self;

	accuracy_repair(&v->score.accuracy, zone,
			exactly ? REPAIR_CAUSE_ISOLATED : REPAIR_CAUSE_UNEXPLAINED, pages);
}

void follow_compactions(struct validate *v, uint64_t at)
{
	struct recorded_compactions *recorded = &v->run.load.recorded_compactions;
	struct recorded_compaction_sink sink = {v, isolated, cut, left, followed};
	const struct recorded_compaction_row *row;

	while ((row = recorded_compactions_next(recorded, at))) {
		recorded_compaction_follow(recorded, v->m, row, &sink);
		if (row->kind == COMPACTION_KIND_FAST_ISOLATE_FREEPAGES ||
		    row->kind == COMPACTION_KIND_ISOLATE_MIGRATEPAGES)
			follow_list_heads(v, row->at, row->pid);
	}
}

void follow_supply(struct validate *v)
{
	struct recorded_compaction_sink sink = {v, isolated, cut, left, followed};
	const struct window_event *event;

	if (!v->run.load.recorded_compactions.nr_running || !v->window.done)
		return;
	event = window_at(&v->window, v->window.done - 1);
	if (event->kind == EVENT_KIND_FREE)
		recorded_compaction_freed(&v->run.load.recorded_compactions, v->m, event->pid,
					  event->frame, event->order, &sink);
}

void take_given_back(struct validate *v, const struct window_event *event)
{
	struct zone *zone = frame_zone(v->m, event->frame);
	const struct compactor *task = compactor_of(&v->run.load.recorded_compactions, event->pid);

	if (place_of(v->m, event->frame) == PLACE_FREE)
		emit_isolated(&v->score, event->frame, event->order);
	force_used(v->m, event->frame, event->order);
	mark_isolated(v->m, task, event->frame, event->order);
	accuracy_repair(&v->score.accuracy, zone, REPAIR_CAUSE_FREE_UNDONE, 1ull << event->order);
	emit_block(&v->score, INFERRED_KIND_UNDONE_FREE, event->frame, event->order,
		   frame_block(v->m, event->frame)->migratetype, 0);
}

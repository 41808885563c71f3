// SPDX-License-Identifier: Apache-2.0
/*
 * What recorded compaction does between events: blocks that it isolates, captures and gives back.
 */
#include "whereabouts.h"

#include "model/buddy.h"

static void mark_isolated(struct model *m, const struct compactor *task, frame_nr frame)
{
	m->frames[frame].list = ISOLATED;
	m->frames[frame].next = task->run;
}

static void isolated(void *self, const struct compactor *task, frame_nr head, int order,
		     int migratetype)
{
	struct whereabouts *where = self;

	no_guess(where->score, head);
	for (uint32_t i = 0; i < 1u << order; i++)
		mark_isolated(where->m, task, head + i);
	emit_inferred(where->score,
		      (struct inferred){
			      .kind = INFERRED_KIND_ISOLATED,
			      .cpu = where->m->now.cpu,
			      .pid = task->pid,
			      .frame = head,
			      .order = (uint8_t)order,
			      .migratetype = (uint8_t)migratetype,
		      },
		      NULL);
}

static void cut(void *self, const struct compactor *task, uint32_t first)
{
	const struct whereabouts *where = self;

	(void)task;
	emit_cut(where->score, first, 0);
}

/* The next event of a page that compaction takes is its free. */
static int left(void *self, frame_nr head)
{
	const struct whereabouts *where = self;
	const struct window_event *next = window_find_frame(where->window, NULL, head);

	if (!next)
		return 0;
	return next->kind == EVENT_KIND_FREE || next->kind == EVENT_KIND_FREE_BATCHED ? 1 : -1;
}

static void followed(void *self, struct zone *zone, uint64_t pages, bool exactly)
{
	struct whereabouts *where = self;

	accuracy_repair(&where->score->accuracy, zone,
			exactly ? REPAIR_CAUSE_ISOLATED : REPAIR_CAUSE_UNEXPLAINED, pages);
}

void follow_compactions(struct whereabouts *where, uint64_t at)
{
	struct recorded_compactions *recorded = &where->run->load.recorded_compactions;
	struct recorded_compaction_sink sink = {where, isolated, cut, left, followed};
	const struct recorded_compaction_row *row;

	while ((row = recorded_compactions_next(recorded, at)))
		recorded_compaction_follow(recorded, where->m, row, &sink);
}

void follow_supply(struct whereabouts *where)
{
	struct recorded_compaction_sink sink = {where, isolated, cut, left, followed};
	const struct window_event *event;

	if (!where->run->load.recorded_compactions.nr_running || !where->window->done)
		return;
	event = window_at(where->window, where->window->done - 1);
	if (event->kind == EVENT_KIND_FREE)
		recorded_compaction_freed(&where->run->load.recorded_compactions, where->m,
					  event->pid, event->frame, event->order, &sink);
}

/*
 * Whether a freed target of migration was in use: its owner released it while the migrating task
 * still held it, and the free returns it to the allocator. A page that returns to compaction has
 * two frees in a row instead: this one, and a later one.
 */
static bool was_used(const struct whereabouts *where, const struct window_event *free)
{
	enum next_event next_event = next_event_of(&where->next_events, free->at);

	return free->kind == EVENT_KIND_FREE_BATCHED || next_event == NEXT_FROM_PCP ||
	       next_event == NEXT_FROM_BUDDY;
}

bool is_given_back(struct whereabouts *where, const struct window_event *event)
{
	const struct frame *f = &where->m->frames[block_head(where->m, event->frame)];
	const struct compactor *task =
		compactor_of(&where->run->load.recorded_compactions, event->pid);
	const struct window_event *next;

	if (!task || !task->migrating || f->state == FRAME_OLD)
		return false;
	if (f->state == FRAME_USED)
		return task->run && f->list == ISOLATED && f->next == task->run &&
		       !was_used(where, event);
	/* The model missed that the page was taken. A source stays in use until its free. */
	next = window_find_frame(where->window, NULL, event->frame);
	return !next || next->kind == EVENT_KIND_FREE;
}

void take_given_back(struct whereabouts *where, const struct window_event *event)
{
	struct zone *zone = frame_zone(where->m, event->frame);
	const struct compactor *task =
		compactor_of(&where->run->load.recorded_compactions, event->pid);

	if (place_of(where->m, event->frame) == PLACE_FREE)
		emit_isolated(where->score, event->frame, event->order);
	force_used(where->m, event->frame, event->order);
	mark_isolated(where->m, task, event->frame);
	accuracy_repair(&where->score->accuracy, zone, REPAIR_CAUSE_FREE_UNDONE,
			1ull << event->order);
	emit_block(where->score, INFERRED_KIND_UNDONE_FREE, event->frame, event->order,
		   frame_block(where->m, event->frame)->migratetype, 0);
}

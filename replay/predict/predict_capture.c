// SPDX-License-Identifier: Apache-2.0
/* Blocks that recorded compaction captures for its task: when, and which. */
#include "predict.h"

#include "model/buddy.h"

/* The order of the request that a task waits for, or CAPTURE_NOTHING if its alloc is far away. */
static int awaited_order(const struct validate *v, int32_t pid)
{
	for (uint64_t number = v->window.done; number < v->window.arrived; number++) {
		const struct window_event *event = window_at(&v->window, number);

		if (event->kind == EVENT_KIND_ALLOC && event->pid == pid && !event_depth(event))
			return event->order;
	}
	return CAPTURE_NOTHING;
}

/* The task of an event, if it compacts for a request of its own, or NULL. */
static struct compactor *compacts_directly(struct validate *v, const struct window_event *event)
{
	struct compactor *task;

	if (!v->run.load.recorded_compactions.nr_running)
		return NULL;
	task = compactor_of(&v->run.load.recorded_compactions, event->pid);
	if (!task || !task->running || !task->direct)
		return NULL;
	if (task->capture.order == CAPTURE_ORDER_OPEN)
		task->capture.order = awaited_order(v, task->pid);
	return task;
}

struct capture *capture_of(struct validate *v, const struct window_event *event)
{
	struct compactor *task = compacts_directly(v, event);

	return task ? &task->capture : NULL;
}

bool is_captured(struct validate *v, const struct window_event *extfrag)
{
	const struct compactor *task;

	if (v->m->kernel->capture != CAPTURE_TRACED || extfrag->kind != EVENT_KIND_ALLOC_EXTFRAG ||
	    extfrag->fallback_order != extfrag->order)
		return false;
	task = compacts_directly(v, extfrag);
	return task && task->capture.order == extfrag->order;
}

static void count_capture(struct validate *v, const struct window_event *extfrag, frame_nr frame)
{
	struct zone *zone = frame_zone(v->m, extfrag->frame);
	struct miss miss = {
		.event = extfrag,
		.zone = zone,
		.decision = DECISION_EXTFRAG,
		.cause = REPAIR_CAUSE_CAPTURED,
		.order = extfrag->order,
		.migratetype = extfrag->migratetype,
		.expected = pfn_or_none(v->m, frame),
		.got = frame_pfn(v->m, extfrag->frame),
		.place = place_of(v->m, extfrag->frame),
	};

	if (frame == extfrag->frame)
		accuracy_count(&v->score.accuracy, zone, DECISION_EXTFRAG, EXACT);
	else
		missed(&v->score, &miss);
}

void predict_capture(struct validate *v, const struct window_event *extfrag)
{
	struct compactor *task = compactor_of(&v->run.load.recorded_compactions, extfrag->pid);

	if (v->announced.frame != NO_FRAME)
		count_capture(v, &v->announced, NO_FRAME);
	v->announced.frame = NO_FRAME;
	if (task->capture.frame == NO_FRAME)
		v->announced = *extfrag;
	else
		count_capture(v, extfrag, task->capture.frame);
}

void emit_captured(struct validate *v, frame_nr head, int order, uint64_t at)
{
	emit_block(&v->score, INFERRED_KIND_CAPTURED, head, order,
		   frame_block(v->m, head)->migratetype, at);
}

/* Whether a block is on a free list at its next event, which an alloc_extfrag may come before. */
static bool stays_free(const struct validate *v, frame_nr head)
{
	const struct window_event *event = window_find_frame(&v->window, NULL, head);

	if (event && event->kind == EVENT_KIND_ALLOC_EXTFRAG)
		event = window_find_frame(&v->window, event, head);
	return event && event->kind == EVENT_KIND_ALLOC_ZONE_LOCKED;
}

void captured(struct validate *v, struct capture *capture)
{
	struct frame *f = &v->m->frames[capture->frame];

	/* A later page of the same drain was part of the block: it was not whole. */
	if (f->state != FRAME_USED || f->order != capture->order) {
		capture->frame = NO_FRAME;
		return;
	}
	/* A kernel thread captures nothing, not even khugepaged (task_capc, 5.10 to 7.3). */
	if (stays_free(v, capture->frame)) {
		buddy_free(v->m, frame_zone(v->m, capture->frame), capture->frame, capture->order,
			   frame_block(v->m, capture->frame)->migratetype, NULL);
		capture->frame = NO_FRAME;
		return;
	}
	f->list = AWAITS_ALLOC;
	v->whereabouts.pushed[capture->frame] = 0;
	emit_captured(v, capture->frame, capture->order,
		      window_at(&v->window, v->window.done)->at + 1);
	if (v->announced.frame == NO_FRAME)
		return;
	count_capture(v, &v->announced, capture->frame);
	v->announced.frame = NO_FRAME;
}

// SPDX-License-Identifier: Apache-2.0
#include "buddy.h"
#include "validate_run.h"

static void mark_isolated(struct model *m, const struct compactor *task, uint32_t frame)
{
	m->frames[frame].list = ISOLATED;
	m->frames[frame].next = task->run;
}

void tell_block(struct validate *v, int kind, uint32_t head, int order, int migratetype,
		uint64_t at)
{
	tell_untold(v,
		    (struct untold){
			    .at = at,
			    .kind = (uint8_t)kind,
			    .cpu = v->m->now.cpu,
			    .frame = head,
			    .order = (uint8_t)order,
			    .migratetype = (uint8_t)migratetype,
		    },
		    NULL);
}

void tell_isolated(struct validate *v, uint32_t head, int order)
{
	tell_block(v, UNTOLD_KIND_ISOLATED, head, order, v->m->frames[block_head(v->m, head)].list,
		   0);
}

static void isolated(void *self, const struct compactor *task, uint32_t head, int order,
		     int migratetype)
{
	struct validate *v = self;

	no_guess(v, head);
	for (uint32_t i = 0; i < 1u << order; i++)
		mark_isolated(v->m, task, head + i);
	tell_block(v, UNTOLD_KIND_ISOLATED, head, order, migratetype, 0);
}

void tell_cut(struct validate *v, uint32_t first, int behind)
{
	const struct frame *f = &v->m->frames[first];

	tell_untold(v,
		    (struct untold){
			    .kind = UNTOLD_KIND_CUT,
			    .cpu = v->m->now.cpu,
			    .frame = first,
			    .order = f->order,
			    .migratetype = f->list,
			    .behind = (uint8_t)(behind < UINT8_MAX ? behind : UINT8_MAX),
		    },
		    NULL);
}

static void cut(void *self, const struct compactor *task, uint32_t first)
{
	(void)task;
	tell_cut(self, first, 0);
}

/* A page that compaction takes is heard of again when it is freed, and not before. */
static int left(void *self, uint32_t head)
{
	const struct validate *v = self;
	const struct step *next = steps_of_frame(&v->steps, NULL, head);

	if (!next)
		return 0;
	return next->kind == EVENT_KIND_FREE || next->kind == EVENT_KIND_FREE_BATCHED ? 1 : -1;
}

static void followed(void *self, struct zone *zone, uint64_t pages, bool exactly)
{
	struct validate *v = self;

	score_repair(&v->score, zone, exactly ? REPAIR_CAUSE_ISOLATED : REPAIR_CAUSE_UNEXPLAINED,
		     pages);
}

void expect_compaction(struct validate *v, const struct compact_row *row)
{
	struct compact_sink sink = {v, isolated, cut, left, followed};

	compact_follow(&v->start.compactions, v->m, row, &sink);
}

/*
 * Whether a target of migration that is freed was in use: its owner let go of it while the
 * task that moved it there still held it, and the allocator has it back. What goes back to
 * compaction is freed by itself, and heard of again when it is freed once more.
 */
static bool was_used(const struct validate *v, const struct step *free)
{
	enum fate fate = fate_of(&v->fates, free->at);

	return free->kind == EVENT_KIND_FREE_BATCHED || fate == FATE_PCP || fate == FATE_BUDDY;
}

bool is_given_back(struct validate *v, const struct step *step)
{
	const struct frame *f = &v->m->frames[block_head(v->m, step->frame)];
	const struct compactor *task = compactor_of(&v->start.compactions, step->pid);
	const struct step *next;

	if (!task || !task->migrating || f->state == FRAME_OLD)
		return false;
	if (f->state == FRAME_USED)
		return task->run && f->list == ISOLATED && f->next == task->run &&
		       !was_used(v, step);
	/* The model did not see it taken. A source is in use until it is freed. */
	next = steps_of_frame(&v->steps, NULL, step->frame);
	return !next || next->kind == EVENT_KIND_FREE;
}

void expect_given_back(struct validate *v, const struct step *step)
{
	struct zone *zone = frame_zone(v->m, step->frame);
	const struct compactor *task = compactor_of(&v->start.compactions, step->pid);

	if (place_of(v->m, step->frame) == PLACE_FREE)
		tell_isolated(v, step->frame, step->order);
	seize(v->m, step->frame, step->order);
	mark_isolated(v->m, task, step->frame);
	score_repair(&v->score, zone, REPAIR_CAUSE_FREE_UNDONE, 1ull << step->order);
	tell_block(v, UNTOLD_KIND_UNDONE_FREE, step->frame, step->order,
		   frame_block(v->m, step->frame)->migratetype, 0);
}

struct capture *capture_of(struct validate *v, const struct step *step)
{
	struct compactor *task;

	if (!v->start.compactions.nr_running)
		return NULL;
	task = compactor_of(&v->start.compactions, step->pid);
	return task && task->running && task->direct ? &task->capture : NULL;
}

bool is_captured(struct validate *v, const struct step *extfrag)
{
	struct compactor *task = compactor_of(&v->start.compactions, extfrag->pid);

	return v->m->kernel->capture == CAPTURE_TOLD && extfrag->kind == EVENT_KIND_ALLOC_EXTFRAG &&
	       task && task->running && task->direct && task->order == extfrag->order &&
	       extfrag->fallback_order == extfrag->order;
}

static void score_capture(struct validate *v, const struct step *extfrag, uint32_t frame)
{
	struct zone *zone = frame_zone(v->m, extfrag->frame);
	struct miss miss = {
		.step = extfrag,
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
		score(&v->score, zone, DECISION_EXTFRAG, EXACT);
	else
		missed(v, &miss);
}

void expect_capture(struct validate *v, const struct step *extfrag)
{
	struct compactor *task = compactor_of(&v->start.compactions, extfrag->pid);

	if (v->announced.frame != NO_FRAME)
		score_capture(v, &v->announced, NO_FRAME);
	v->announced.frame = NO_FRAME;
	if (task->capture.frame == NO_FRAME)
		v->announced = *extfrag;
	else
		score_capture(v, extfrag, task->capture.frame);
}

void tell_captured(struct validate *v, uint32_t head, int order, uint64_t at)
{
	tell_block(v, UNTOLD_KIND_CAPTURED, head, order, frame_block(v->m, head)->migratetype, at);
}

void captured(struct validate *v, const struct capture *capture)
{
	v->m->frames[capture->frame].list = AWAITS_ALLOC;
	v->pushed[capture->frame] = 0;
	tell_captured(v, capture->frame, capture->order,
		      step_number(&v->steps, v->steps.done)->at + 1);
	if (v->announced.frame == NO_FRAME)
		return;
	score_capture(v, &v->announced, capture->frame);
	v->announced.frame = NO_FRAME;
}

// SPDX-License-Identifier: Apache-2.0
#include "huge.h"

#include "model/fragmentation.h"
#include "model/memory.h"
#include "model/policy_stack.h"
#include "model/watermark.h"
#include "model/zone.h"
#include "model/zonelist.h"
#include "tape/huge_requests.h"

#include <errno.h>

enum { FAULTS_BITS = 12 }; /* of the table of threads */

#define GFP_LOCAL  (GFP_THISNODE | GFP_NORETRY)
#define GFP_SINGLE (GFP_HIGHMEM | GFP_MOVABLE | GFP_ZERO)

int huge_new(struct huge **out, struct model *m, struct error *err)
{
	struct policy *owner = m->policies->owner.huge_plan;
	size_t blocks = (m->nr_frames >> m->pageblock_order) + 1;
	struct huge_plan plan = {0};
	struct huge *h;

	*out = NULL;
	if (!owner->ops->huge_plan(owner, &plan))
		return 0;
	h = arrays_new(m->arrays, 1, sizeof(*h));
	if (!h)
		return arrays_error(m->arrays, err);
	*h = (struct huge){.m = m, .plan = plan};
	h->faults = arrays_new(m->arrays, 1u << FAULTS_BITS, sizeof(*h->faults));
	h->groups = arrays_new(m->arrays, blocks, sizeof(*h->groups));
	h->pieces = arrays_new(m->arrays, blocks, sizeof(*h->pieces));
	if (arrays_error(m->arrays, err))
		return -ENOMEM;
	for (uint32_t i = 0; i < 1u << FAULTS_BITS; i++)
		h->faults[i].head = NO_FRAME;
	*out = h;
	return 0;
}

struct huge_fault *huge_fault_of(const struct huge *h, int32_t pid)
{
	return &h->faults[(uint32_t)pid * 2654435761u >> (32 - FAULTS_BITS)];
}

bool huge_is_try(const struct huge *h, const struct waiting *e)
{
	const struct huge_fault *fault;

	if (e->order != h->m->pageblock_order || !is_huge_request(e))
		return false;
	if (e->gfp_flags & GFP_THISNODE)
		return e->gfp_flags & GFP_NORETRY;
	fault = huge_fault_of(h, e->moment.pid);
	return fault->pid == e->moment.pid && fault->waits;
}

void huge_open(struct huge *h, struct huge_fault *fault, frame_nr head)
{
	fault->head = head;
	fault->asked = 0;
	h->groups[head >> h->m->pageblock_order] = (struct huge_group){
		.fault = (uint16_t)(fault - h->faults),
		.open = true,
	};
}

void huge_close(struct huge *h, struct huge_fault *fault)
{
	if (fault->head != NO_FRAME)
		h->groups[fault->head >> h->m->pageblock_order].open = false;
	fault->head = NO_FRAME;
}

frame_nr huge_begin(struct huge *h, struct huge_fault *fault, int32_t pid)
{
	uint32_t unused = fault->head != NO_FRAME && !fault->asked ? fault->head : NO_FRAME;

	huge_close(h, fault);
	*fault = (struct huge_fault){.pid = pid, .head = NO_FRAME};
	return unused;
}

/* Scan all zones of a try once; `single`: a single page there is better. */
static uint32_t take_steps(struct model *m, const struct huge_try *try, struct request *rq,
			   int wmark, bool *single)
{
	for (int i = 0; i < try->nr_steps; i++) {
		const struct huge_step *step = &try->steps[i];
		frame_nr head;

		if (step->single) {
			*single = zone_has_within(m, rq, step->reach, wmark);
			if (*single)
				return NO_FRAME;
			continue;
		}
		head = zone_alloc_within(m, rq, step->reach, wmark);
		if (head != NO_FRAME)
			return head;
	}
	return NO_FRAME;
}

static uint32_t make_try(struct model *m, const struct huge_try *try, struct request *rq)
{
	bool single = false;
	frame_nr head = take_steps(m, try, rq, WMARK_LOW, &single);

	if (head != NO_FRAME || single)
		return head;
	zone_look_again(m, rq);
	head = take_steps(m, try, rq, WMARK_MIN, &single);
	return head == NO_FRAME && try->turns ? zone_alloc_by_turns(m, rq) : head;
}

frame_nr huge_alloc(const struct huge *h, struct request *rq, int first, int end)
{
	struct model *m = h->m;
	uint32_t gfp_flags = rq->gfp_flags, head = NO_FRAME;

	if (!zone_preferred(m, rq))
		return NO_FRAME;
	/* Only the record's second try shows whether the fault itself has __GFP_NORETRY. */
	if (gfp_flags & GFP_THISNODE)
		gfp_flags &= ~(uint32_t)GFP_LOCAL;
	for (int i = first; i < end && i < h->plan.nr_tries && head == NO_FRAME; i++) {
		const struct huge_try *try = &h->plan.tries[i];

		if (try->reclaimer && !(gfp_flags & GFP_DIRECT_RECLAIM))
			break;
		rq->gfp_flags = gfp_flags | try->gfp_flags;
		head = make_try(m, try, rq);
		events_alloc(m->events, &m->now,
			     head == NO_FRAME ? NO_PFN : (int64_t)frame_pfn(m, head), rq->order,
			     rq->gfp_flags, rq->migratetype);
	}
	rq->gfp_flags = gfp_flags;
	return head;
}

bool huge_may_have(const struct huge *h, const struct request *rq, int node)
{
	int class = distance_class(h->m, rq->node, node);

	for (int i = 0; i < h->plan.nr_tries; i++) {
		const struct huge_try *try = &h->plan.tries[i];

		for (int s = 0; s < try->nr_steps; s++)
			if (!try->steps[s].single && class >= try->steps[s].reach.near &&
			    class <= try->steps[s].reach.far &&
			    (!(try->gfp_flags & GFP_THISNODE) || node == rq->node))
				return true;
	}
	return false;
}

void huge_count_success(const struct huge *h, const struct request *rq, frame_nr head)
{
	struct zone *zone = frame_zone(h->m, head);
	struct counters *counters = zone_counters(h->m, zone);

	if (zone->node == rq->node)
		counters->thp_local++;
	else
		counters->thp_remote++;
}

void huge_count_failure(const struct huge *h, const struct request *rq)
{
	struct model *m = h->m;
	struct zone *zone = zone_preferred(m, rq);
	struct request single = *rq;
	struct counters *counters;
	int64_t index;

	if (!zone)
		return;
	counters = zone_counters(m, zone);
	index = fragmentation_index(m, zone, rq->order);
	single.order = 0;
	single.flags = 0;
	if (!watermark_ok(m, zone, &single, zone_mark(zone, WMARK_MIN) + (1ll << rq->order)))
		counters->thp_below_watermark++;
	else if (rq->gfp_flags & GFP_DIRECT_RECLAIM && index > EXTFRAG_THRESHOLD)
		counters->thp_fragmented++;
	else
		counters->thp_no_compaction++;
}

frame_nr huge_swallow(struct huge *h, const struct waiting *e)
{
	struct huge_fault *fault = huge_fault_of(h, e->moment.pid);
	frame_nr page;

	if (fault->head == NO_FRAME || fault->pid != e->moment.pid ||
	    (e->gfp_flags & (GFP_SINGLE | GFP_THISNODE)) != GFP_SINGLE)
		return NO_FRAME;
	page = fault->head + fault->asked++;
	h->groups[page >> h->m->pageblock_order].live++;
	zone_counters(h->m, frame_zone(h->m, page))->thp_swallowed++;
	if (fault->asked == 1u << h->m->pageblock_order)
		huge_close(h, fault);
	return page;
}

frame_nr huge_give_back(struct huge *h, frame_nr page)
{
	struct huge_group *group = &h->groups[page >> h->m->pageblock_order];

	if (--group->live)
		return NO_FRAME;
	if (group->open)
		huge_close(h, &h->faults[group->fault]);
	return page & ~((1u << h->m->pageblock_order) - 1);
}

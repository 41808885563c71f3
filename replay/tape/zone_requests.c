// SPDX-License-Identifier: Apache-2.0
#include "zone_requests.h"

#include "model/memory.h"

#define CONTEXTS (CONTEXT_SOFTIRQ | CONTEXT_HARDIRQ | CONTEXT_NMI)

struct zone_requests *zone_requests_new(const struct model *m)
{
	struct zone_requests *z = arrays_new(m->arrays, 1, sizeof(*z));

	if (!z)
		return NULL;
	z->cpus = arrays_new(m->arrays, (size_t)m->nr_cpus, sizeof(*z->cpus));
	z->holders = arrays_new(m->arrays, (size_t)m->nr_zones, sizeof(*z->holders));
	return z;
}

/* An earlier request of this CPU, if its number + 1 is given and it waits; or NULL. */
static struct waiting *earlier(const struct requests *q, uint64_t number_1, uint64_t number)
{
	return number_1 && number - (number_1 - 1) < REQUESTS_WINDOW ? requests_at(q, number_1 - 1)
								     : NULL;
}

/* Whether a page of the same zone leaves, or comes, by the same task in the same context. */
static bool is_alike(const struct model *m, const struct waiting *one, const struct waiting *other)
{
	return one->kind == other->kind && one->moment.pid == other->moment.pid &&
	       (one->moment.flags & CONTEXTS) == (other->moment.flags & CONTEXTS) &&
	       frame_zone(m, one->frame) == frame_zone(m, other->frame);
}

/* A request for MOVABLE takes CMA pages too; one with the right to them, HIGHATOMIC ones. */
static uint8_t asked_type(int migratetype)
{
	if (migratetype == MIGRATETYPE_CMA)
		return MIGRATETYPE_MOVABLE;
	return migratetype == MIGRATETYPE_HIGHATOMIC ? MIGRATETYPE_UNMOVABLE : (uint8_t)migratetype;
}

/* Page `number` of a refill: one of the CPU's latest refill, or the first of another. */
static void place(struct requests *q, struct waiting *e, uint64_t number, bool held)
{
	struct cpu_requests *cpu = &q->zone_requests->cpus[e->moment.cpu];
	struct waiting *head = earlier(q, cpu->head, number);

	e->more = 0;
	e->follows = held && head && is_alike(q->model, head, e) && head->order == e->order &&
		     head->migratetype == e->migratetype &&
		     q->model->pcp_lists[e->order][e->migratetype] != NO_PCP_LIST;
	cpu->before = cpu->head;
	if (e->follows)
		head->more++;
	else
		cpu->head = number + 1;
}

/*
 * A fallback. Up to 6.8 its page has an event after it. Later it has one before it, or none: then
 * the fallback stands for its page. Returns whether it does.
 */
static bool read_fallback(struct requests *q, const struct waiting *extfrag, uint64_t number)
{
	struct cpu_requests *cpu = &q->zone_requests->cpus[extfrag->moment.cpu];
	struct waiting *page = earlier(q, cpu->last, number);
	uint64_t last = cpu->last - 1;

	if (q->model->record->fallback_first)
		return false;
	if (!page || page->kind != EVENT_KIND_ALLOC_ZONE_LOCKED || page->frame != extfrag->frame ||
	    page->order != extfrag->order)
		return true;
	if (page->migratetype == extfrag->migratetype)
		return false;
	if (page->follows)
		requests_at(q, cpu->head - 1)->more--;
	cpu->head = cpu->before;
	page->migratetype = extfrag->migratetype;
	place(q, page, last, true);
	return false;
}

bool zone_request_read(struct requests *q, struct waiting *e, uint64_t number)
{
	struct zone_requests *z = q->zone_requests;
	struct cpu_requests *cpu = &z->cpus[e->moment.cpu];
	uint16_t *holder = &z->holders[frame_zone(q->model, e->frame)->number];
	const struct waiting *last = earlier(q, cpu->last, number);
	bool held = last && *holder == e->moment.cpu;

	if (e->kind == EVENT_KIND_ALLOC_EXTFRAG) {
		if (!read_fallback(q, e, number))
			return false;
		e->kind = EVENT_KIND_ALLOC_ZONE_LOCKED;
	}
	*holder = e->moment.cpu;
	if (e->kind == EVENT_KIND_ALLOC_ZONE_LOCKED) {
		e->migratetype = asked_type(e->migratetype);
		place(q, e, number, held && last->kind == e->kind);
	} else {
		e->follows =
			e->kind == EVENT_KIND_PCPU_DRAIN && held && is_alike(q->model, last, e);
		cpu->head = 0;
	}
	cpu->last = number + 1;
	return true;
}

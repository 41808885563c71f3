// SPDX-License-Identifier: Apache-2.0
/* The pages of the per-CPU lists at the start, and their order. */
#include "hindsight_run.h"

#include "model/buddy.h"
#include "model/memory.h"

#include <errno.h>

static uint32_t pcp_number(const struct hindsight *h, const struct seen *s, int cpu)
{
	return zone_pcp(h->m, frame_zone(h->m, s->frame), cpu)->number;
}

static uint32_t list_of_type(const struct hindsight *h, const struct seen *s, int cpu, int type)
{
	int list = h->m->pcp_lists[s->order][type];

	return list == NO_PCP_LIST ? NEVER : pcp_number(h, s, cpu) * MAX_PCP_LISTS + (uint32_t)list;
}

/* No entry of the start is left on a list. */
static void note_empty(struct hindsight *h, uint32_t list, low_row row)
{
	if (list != NEVER && h->emptied[list] == NEVER)
		h->emptied[list] = row;
}

/* Whether entries of the start may still be on a list. */
static bool may_hold(const struct hindsight *h, uint32_t list)
{
	return list == NEVER || h->emptied[list] == NEVER;
}

/*
 * The list of a block that leaves a PCP of `cpu`: list_number(), or NEVER. Drains may report the
 * type that its pageblock has now; the list may have that of the start, or of an earlier request.
 * `before`: the list of the block before it in the same drain, or NEVER.
 */
static uint32_t list_of(const struct hindsight *h, const struct seen *s, int cpu, uint32_t before)
{
	const struct first_event *f = &h->first[s->frame];
	int at_start = h->blocks[s->frame >> h->m->pageblock_order].migratetype;
	uint32_t list = list_of_type(h, s, cpu, s->migratetype), other;

	if (s->kind != EVENT_KIND_PCPU_DRAIN || h->m->kernel->drained_type != DRAINED_BLOCK)
		return list;
	if (f->home)
		return list_of_type(h, s, cpu, f->migratetype);
	other = list_of_type(h, s, cpu, at_start);
	if (f->entry && other != NEVER && may_hold(h, other))
		return other;
	if (f->entry && !may_hold(h, list) && before != NEVER && may_hold(h, before) &&
	    before / MAX_PCP_LISTS == pcp_number(h, s, cpu))
		return before;
	return list;
}

/* The entry of an event was on a list at the start, of a PCP of `cpu`. -ENOMEM. */
static int add_entry(struct hindsight *h, const struct seen *s, int cpu, uint32_t list,
		     struct error *err)
{
	uint32_t pages = 1u << s->order;
	uint32_t *left = &h->counts[pcp_number(h, s, cpu)];

	h->first[s->frame].entry = false;
	if (grow(h->m->arrays, &h->entries, &h->room_entries, h->nr_entries + 1,
		 sizeof(*h->entries), err))
		return -ENOMEM;
	h->entries[h->nr_entries++] = (struct start_entry){
		.frame = s->frame,
		.row = s->row,
		.list = list,
		.order = s->order,
		.drained = s->kind == EVENT_KIND_PCPU_DRAIN,
	};
	*left -= *left < pages ? *left : pages;
	return 0;
}

/* A block leaves a list of a PCP of `cpu`. -ENOMEM. */
static int leave(struct hindsight *h, const struct seen *s, int cpu, uint32_t list,
		 struct error *err)
{
	struct first_event *f = &h->first[s->frame];
	bool entry = f->entry;

	/* Drains take from the tail: what the events put there stands before all of the start. */
	if (s->kind == EVENT_KIND_PCPU_DRAIN && f->home)
		note_empty(h, list, s->row);
	f->home = 0;
	h->held[pcp_number(h, s, cpu)] -= 1ll << s->order;
	return entry && list != NEVER ? add_entry(h, s, cpu, list, err) : 0;
}

static void join(struct hindsight *h, const struct seen *s, int migratetype)
{
	h->first[s->frame].home = (uint16_t)(s->cpu + 1);
	h->first[s->frame].migratetype = (uint8_t)migratetype;
	h->held[pcp_number(h, s, s->cpu)] += 1ll << s->order;
}

/* Whether a run of drains is that of all CPUs, by the task of one (drain_all_pages, since 6.1). */
static bool is_remote(const struct hindsight *h, const struct drain_run *d, int cpu)
{
	/* An overflow begins with the list of the free; other lists may be known less well. */
	bool overflow = d->after_free && h->first[d->rows[0].frame].home == cpu + 1;
	int64_t own = 0, unknown = 0;

	if (!h->m->kernel->drain_all_remote)
		return false;
	for (size_t i = 0; i < d->nr; i++) {
		int home = h->first[d->rows[i].frame].home;

		if (home && home != cpu + 1)
			return true;
		if (!home && !overflow && !may_hold(h, list_of(h, &d->rows[i], cpu, NEVER)))
			return true;
		unknown += home ? 0 : 1ll << d->rows[i].order;
	}
	for (int z = 0; z < h->m->nr_zones; z++)
		own += h->held[zone_pcp(h->m, &h->m->zones[z], cpu)->number];
	return !d->after_free && unknown > own;
}

/*
 * The CPU whose PCP the next drained block of such a run was on, that of the block before it or a
 * later one. Events show it, or the number of pages that the PCPs hold.
 */
static int next_home(const struct hindsight *h, const struct drain_run *d, size_t i)
{
	const struct seen *s = &d->rows[i];
	int zone = frame_zone(h->m, s->frame)->number, cpu = d->home, last = h->m->nr_cpus - 1;

	if (h->first[s->frame].home)
		return h->first[s->frame].home - 1;
	/* Of each CPU, the zones are drained in their order. */
	if (d->zone > zone && cpu < last)
		cpu++;
	for (size_t k = i + 1; k < d->nr; k++) {
		if (frame_zone(h->m, d->rows[k].frame)->number != zone)
			break;
		if (h->first[d->rows[k].frame].home) {
			last = h->first[d->rows[k].frame].home - 1;
			break;
		}
	}
	while (cpu < last &&
	       (!may_hold(h, list_of(h, s, cpu, d->list)) || h->held[pcp_number(h, s, cpu)] <= 0))
		cpu++;
	return cpu;
}

/* A drain of all CPUs has gone on to the next PCP: the one before is empty. */
static void note_drained(struct hindsight *h, const struct pcp *pcp, const struct drain_run *d)
{
	h->held[pcp->number] = 0;
	for (int list = 0; list < MAX_PCP_LISTS; list++)
		note_empty(h, list_number(pcp, list), d->rows[0].row);
}

/*
 * A drain takes whole lists, one after the other (free_pcppages_bulk since 5.18): those that it
 * has passed on the way to `list` are empty.
 */
static void note_passed(struct hindsight *h, struct drain_run *d, uint32_t list, low_row row)
{
	uint32_t pcp = list / MAX_PCP_LISTS * MAX_PCP_LISTS, nr = (uint32_t)h->m->nr_pcp_lists;
	bool anew = d->list == NEVER || d->list / MAX_PCP_LISTS != list / MAX_PCP_LISTS;
	bool overflow = d->after_free && !d->remote;
	uint32_t at = anew ? pcp : d->list;

	if (h->m->kernel->drain_rule != DRAIN_FROM_INDEX)
		return;
	if (anew && overflow) /* begins at the list of the free */
		at = list;
	else if (list < at && !overflow) /* begins with the first list, once more */
		at = pcp;
	for (; at != list; at = pcp + (at + 1 - pcp) % nr)
		note_empty(h, at, row);
}

/* Count the next block of a run, which leaves a PCP of `cpu`. */
static void count_drained(struct hindsight *h, struct drain_run *d, const struct seen *s, int cpu)
{
	uint32_t number = pcp_number(h, s, cpu);

	if (!d->pages) {
		d->pcp = number;
		d->held = h->held[number];
	} else if (d->pcp != number) {
		d->pcp = NEVER;
	}
	d->last = 1 << s->order;
	d->pages += d->last;
}

int end_drains(struct hindsight *h, int cpu, struct error *err)
{
	struct drain_run *d = &h->drains[cpu];
	int ret = 0;

	if (d->nr && !d->remote)
		d->remote = is_remote(h, d, cpu);
	for (size_t i = 0; i < d->nr && !ret; i++) {
		const struct zone *zone = frame_zone(h->m, d->rows[i].frame);
		int home = d->remote ? next_home(h, d, i) : cpu;
		uint32_t list = list_of(h, &d->rows[i], home, d->list);

		if (d->remote && d->ran && (home != d->home || zone->number != d->zone))
			note_drained(h, zone_pcp(h->m, &h->m->zones[d->zone], d->home), d);
		d->home = home;
		d->zone = zone->number;
		d->ran = true;
		h->first[d->rows[i].frame].pending = false;
		if (list != NEVER)
			note_passed(h, d, list, d->rows[i].row);
		d->list = list;
		count_drained(h, d, &d->rows[i], home);
		ret = leave(h, &d->rows[i], home, list, err);
	}
	d->nr = 0;
	return ret;
}

/* No further block of the CPU's run comes. -ENOMEM. */
static int end_run(struct hindsight *h, int cpu, struct error *err)
{
	struct drain_run *d = &h->drains[cpu];
	int ret = end_drains(h, cpu, err);

	if (d->pages && d->pcp != NEVER && !d->remote && d->after_free)
		note_overflow(h, d);
	d->pages = 0;
	return ret;
}

static int add_drain(struct hindsight *h, const struct seen *s, struct error *err)
{
	struct drain_run *d = &h->drains[s->cpu];

	if (grow(h->m->arrays, &d->rows, &d->room, d->nr + 1, sizeof(*d->rows), err))
		return -ENOMEM;
	if (h->last_kinds[s->cpu] != EVENT_KIND_PCPU_DRAIN || d->pid != s->pid) {
		d->after_free = h->last_kinds[s->cpu] == EVENT_KIND_FREE ||
				h->last_kinds[s->cpu] == EVENT_KIND_FREE_BATCHED;
		d->batched = h->last_kinds[s->cpu] == EVENT_KIND_FREE_BATCHED;
		d->pid = s->pid;
		d->remote = d->ran = false;
		d->list = NEVER;
		d->home = d->zone = 0;
	}
	h->first[s->frame].pending = true;
	d->rows[d->nr++] = *s;
	return 0;
}

/* A refill of a list, which is empty then. */
static void note_refill(struct hindsight *h, const struct seen *s)
{
	uint32_t list = list_of(h, s, s->cpu, NEVER);

	note_empty(h, list, s->row);
	if (list != NEVER)
		join(h, s, s->migratetype);
}

/*
 * The page of a fallback is on the list of the request; its alloc_zone_locked may have had another
 * type. Since 6.10 the event has that page (try_to_claim_block, __rmqueue_steal), and only a page
 * of a claimed pageblock has an alloc_zone_locked before it (__rmqueue_smallest). Up to 6.8 the
 * event has the chunk, and an alloc_zone_locked follows (steal_suitable_fallback, rmqueue_bulk).
 */
static void note_fallback_refill(struct hindsight *h, const struct seen *s)
{
	struct first_event *f = &h->first[s->frame];

	if (!f->home && h->m->kernel->fallback >= FALLBACK_CLAIM_OR_SPLIT)
		note_refill(h, s);
	f->migratetype = s->migratetype;
}

static int leave_for_alloc(struct hindsight *h, const struct seen *s, int cpu, struct error *err)
{
	return leave(h, s, cpu, list_of(h, s, cpu, NEVER), err);
}

int follow_pcps(struct hindsight *h, const struct seen *s, struct error *err)
{
	bool pending = h->first[s->frame].pending;
	int home = h->first[s->frame].home, ret = 0;

	if (s->kind != EVENT_KIND_PCPU_DRAIN || s->pid != h->drains[s->cpu].pid)
		ret = end_run(h, s->cpu, err);
	for (int cpu = 0; pending && !ret && cpu < h->m->nr_cpus; cpu++)
		ret = end_drains(h, cpu, err);
	switch (ret ? NR_EVENT_KIND : s->kind) {
	case EVENT_KIND_ALLOC_ZONE_LOCKED:
		note_refill(h, s);
		break;
	case EVENT_KIND_ALLOC:
		/* The task may have gone to another CPU before its event. */
		if (pcp_allowed(h->m, s->order))
			ret = leave_for_alloc(h, s, home ? home - 1 : s->cpu, err);
		break;
	case EVENT_KIND_PCPU_DRAIN:
		ret = add_drain(h, s, err);
		break;
	case EVENT_KIND_FREE:
		h->drains[s->cpu].free_order = s->order;
		if (pcp_allowed(h->m, s->order) &&
		    next_event_of(&h->next_events, s->row) != NEXT_FROM_BUDDY)
			join(h, s, frame_block(h->m, s->frame)->migratetype);
		break;
	case EVENT_KIND_ALLOC_EXTFRAG:
		note_fallback_refill(h, s);
		break;
	}
	h->last_kinds[s->cpu] = s->kind;
	return ret;
}

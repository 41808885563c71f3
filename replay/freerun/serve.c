// SPDX-License-Identifier: Apache-2.0
/* Hands each request to the file that serves it. Also: allocs whose block was taken earlier. */
#include "serve_internal.h"

#include "model/scan_effects.h"
#include "model/zone.h"

/* The event of an alloc whose page already left its list as an alloc without an event. */
static bool has_page(struct serve *s, const struct waiting *e)
{
	uint32_t place = page_map_place(&s->pages, e->frame);
	struct frame *f;

	if (place == NO_FRAME || serve_is_freed_with_others(s, place))
		return false;
	f = &s->model->frames[place];
	if (!frame_is_live(f->state) || f->list != AWAITS_ALLOC || f->order != e->order)
		return false;
	f->list = 0;
	events_alloc(s->model->events, &s->model->now, (int64_t)frame_pfn(s->model, place),
		     e->order, e->gfp_flags, e->migratetype);
	return true;
}

bool serve_has_block(const struct serve *s, const struct waiting *e)
{
	uint32_t place = page_map_place(&s->pages, e->frame);

	for (int i = 0; i < s->nr_early; i++)
		if (s->early[i] == s->at)
			return true;
	for (int i = 0; i < s->nr_captured; i++)
		if (s->captured[i] == e->frame)
			return true;
	return place != NO_FRAME && frame_is_live(s->model->frames[place].state) &&
	       s->model->frames[place].list == AWAITS_ALLOC;
}

/* The event of an alloc that has already run. */
static bool emit_late_event(struct serve *s, const struct waiting *e)
{
	for (int i = 0; i < s->nr_early; i++) {
		uint32_t place;

		if (s->early[i] != s->at)
			continue;
		place = s->pages.map[e->frame];
		s->early[i] = s->early[--s->nr_early];
		if (map_has_page(place) && serve_is_freed_with_others(s, place - 1))
			return true;
		events_alloc(s->model->events, &s->model->now,
			     map_has_page(place) ? (int64_t)frame_pfn(s->model, place - 1) : NO_PFN,
			     e->order, e->gfp_flags, e->migratetype);
		return true;
	}
	return false;
}

/* A request that failed in the record: it tried every zone, and marked the low ones. */
static void emit_failure(struct serve *s, const struct waiting *e)
{
	struct model *m = s->model;

	if (is_huge_request(e)) {
		struct request rq = serve_asked(s, e);

		huge_requests_add(&s->huge_requests, e, zone_has_block(m, &rq));
	}
	zone_mark_tried(m, e->moment.cpu, e->gfp_flags, e->order);
	events_alloc(m->events, &m->now, NO_PFN, e->order, e->gfp_flags, e->migratetype);
}

void serve_request(struct serve *s, struct waiting *e)
{
	if (s->runs && serve_contig_free(s, e))
		return;
	if (s->undone_at == s->at && e->kind != EVENT_KIND_ALLOC) {
		serve_emit_free(s, e);
		return;
	}
	if (s->refills) {
		serve_boundary(s, e);
		return;
	}
	switch (e->kind) {
	case EVENT_KIND_ALLOC:
		if (s->nr_migrations &&
		    !(e->moment.flags & (CONTEXT_SOFTIRQ | CONTEXT_HARDIRQ | CONTEXT_NMI)))
			serve_migration_end(s, e->moment.pid);
		if (s->nr_early && emit_late_event(s, e))
			break;
		if (s->huge && huge_is_try(s->huge, e))
			serve_try(s, e);
		else if (e->frame == NO_FRAME)
			emit_failure(s, e);
		else if (!s->nr_awaiting_alloc || !has_page(s, e))
			serve_alloc(s, e, true);
		break;
	case EVENT_KIND_FREE:
		if (e->batched) {
			serve_emit_free(s, e);
			break;
		}
		if (s->nr_migrations && serve_migration_free(s, e))
			serve_commit_free(s, e, ROW_FREE | ROW_OF_MOVED);
		else
			serve_commit_free(s, e, ROW_FREE);
		break;
	case EVENT_KIND_FREE_BATCHED:
		serve_free_batched(s, e);
		break;
	}
}

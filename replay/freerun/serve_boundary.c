// SPDX-License-Identifier: Apache-2.0
/*
 * Requests of a tape of the event set zone: pages that refills take from the free lists, drains and
 * frees that give them back. The PCPs of the model stay empty but for the rest of a refill.
 */
#include "serve_internal.h"

#include "model/pcp.h"
#include "model/zone.h"
#include "tape/node_preference.h"

/* A page of a refill as an alloc, with the gfp flags that such requests mostly have. */
static struct waiting as_alloc(const struct waiting *e)
{
	struct waiting alloc = *e;

	alloc.kind = EVENT_KIND_ALLOC;
	alloc.follows = false;
	alloc.gfp_flags = refill_gfp(e->migratetype, e->moment.flags);
	return alloc;
}

/* The next page of the CPU's refill, or NO_FRAME. */
static frame_nr next_refilled(const struct serve *s, struct refill_rest *rest)
{
	const struct model *m = s->model;
	frame_nr frame;

	if (!rest->left)
		return NO_FRAME;
	frame = m->frames[rest->list].next;
	return frame == rest->list ? NO_FRAME : frame;
}

/* The recorded page takes a page that its refill has put onto the PCP. */
static void take_refilled(struct serve *s, const struct waiting *alloc, frame_nr frame)
{
	struct model *m = s->model;
	const struct request rq = serve_asked(s, alloc);

	pcp_remove(m, &m->pcps[m->frames[frame].list], frame);
	m->frames[frame].state = FRAME_USED;
	zone_hand_out(m, &rq, frame);
	serve_settle(s, alloc, frame);
}

/*
 * A refill of 1 + `more` pages, of which the first is for this page. If the model takes fewer at
 * once, the next page after those asks again.
 */
static void begin_refill(struct serve *s, const struct waiting *alloc, uint32_t more)
{
	struct model *m = s->model;
	struct refill_rest *rest = &s->refills[alloc->moment.cpu];
	frame_nr place;

	s->request.refill = 1 + more;
	serve_alloc(s, alloc, false);
	s->request.refill = 0;
	place = page_map_place(&s->pages, alloc->frame);
	rest->left = 0;
	if (place == NO_FRAME || m->pcp_lists[alloc->order][alloc->migratetype] == NO_PCP_LIST)
		return;
	rest->left = more;
	rest->list = pcp_list(m, zone_pcp(m, frame_zone(m, place), alloc->moment.cpu), alloc->order,
			      alloc->migratetype);
}

static void serve_refill(struct serve *s, const struct waiting *e)
{
	struct refill_rest *rest = &s->refills[e->moment.cpu];
	const struct waiting alloc = as_alloc(e);
	frame_nr frame;

	/* The page may have come back without an event: past the list, whose lock was taken. */
	s->request.free.pcp_locked = true;
	serve_make_free(s, &alloc);
	s->request.free.pcp_locked = false;
	frame = e->follows ? next_refilled(s, rest) : NO_FRAME;
	if (frame == NO_FRAME) {
		begin_refill(s, &alloc, !e->follows ? e->more : rest->left ? rest->left - 1 : 0);
		return;
	}
	rest->left--;
	take_refilled(s, &alloc, frame);
}

void serve_boundary(struct serve *s, const struct waiting *e)
{
	switch (e->kind) {
	case EVENT_KIND_ALLOC_ZONE_LOCKED:
		serve_refill(s, e);
		break;
	case EVENT_KIND_PCPU_DRAIN:
		if (s->nr_migrations)
			serve_migration_free(s, e);
		s->request.free.drained = true;
		s->request.free.drains_on = e->follows;
		serve_commit_free(s, e, 0);
		s->request.free.drained = s->request.free.drains_on = false;
		break;
	case EVENT_KIND_FREE:
		s->request.free.pcp_locked = true;
		serve_commit_free(s, e, ROW_FREE);
		s->request.free.pcp_locked = false;
		break;
	}
}

// SPDX-License-Identifier: Apache-2.0
#include "reclaim.h"

#include "zone.h"

#include <errno.h>
#include <stdlib.h>

enum {
	NO_ROW = UINT32_MAX,
	LOOK_AHEAD = 4096, /* rows of a queue that are not in use yet and passed over */
};
#define NS_PER_MS 1000000ull

static int load_row(struct reclaimed *row, const struct model *m, const struct reclaimed_columns *c,
		    size_t i, struct error *err)
{
	const struct zone *zone = pfn_zone(m, c->pfn[i]);

	if (c->page_order[i] > m->max_order || c->kind[i] >= NR_RECLAIMED_KIND || c->ts[i] >> 62)
		return fail(err, EINVAL, "reclaimed: row of event %llu: pfn %llu, order %d",
			    (unsigned long long)c->at[i], (unsigned long long)c->pfn[i],
			    c->page_order[i]);
	*row = (struct reclaimed){
		.at = c->at[i],
		.ts = c->ts[i],
		.since = is_valid(c->since_valid, i) ? c->since[i] : 0,
		.frame = NO_FRAME,
		.next = NO_ROW,
		.kind = c->kind[i],
		.order = c->page_order[i],
		.moved = c->cause[i] == RECLAIMED_CAUSE_COMPACT,
	};
	if (zone && zone->end - zone->start - (c->pfn[i] - zone->start_pfn) >= 1u << row->order)
		row->frame = zone->base + (uint32_t)(c->pfn[i] - zone->base_pfn);
	return 0;
}

int reclaim_load(struct reclaim *rc, const struct model *m, const struct reclaimed_columns *columns,
		 size_t rows, uint64_t first, struct error *err)
{
	size_t room = rc->nr + rows;
	int ret = 0;

	if (room > NO_ROW)
		return fail(err, E2BIG, "reclaimed: %zu rows", room);
	if (room > rc->room) {
		struct reclaimed *more = realloc(rc->rows, room * sizeof(*more));

		if (!more)
			return fail(err, ENOMEM, "no memory for %zu rows of reclaimed", room);
		rc->rows = more;
		rc->room = room;
	}
	for (size_t i = 0; i < rows && !ret; i++) {
		if (columns->at[i] < first)
			continue;
		if (rc->nr && columns->at[i] <= rc->rows[rc->nr - 1].at)
			return fail(err, EINVAL,
				    "reclaimed: row %zu goes back from event %llu to %llu", rc->nr,
				    (unsigned long long)rc->rows[rc->nr - 1].at,
				    (unsigned long long)columns->at[i]);
		ret = load_row(&rc->rows[rc->nr], m, columns, i, err);
		rc->nr += !ret;
	}
	return ret;
}

static int ages_new(struct reclaim *rc, const struct model *m, struct error *err)
{
	rc->ages = calloc((size_t)m->nr_zones, sizeof(*rc->ages));
	if (!rc->ages)
		return fail(err, ENOMEM, "no memory for the ages of %d zones", m->nr_zones);
	for (int i = 0; i < m->nr_zones; i++) {
		struct ages *ages = &rc->ages[i];

		ages->room = 2 * (size_t)(m->zones[i].end - m->zones[i].start);
		ages->ring = malloc((ages->room + 1) * sizeof(*ages->ring));
		if (!ages->ring)
			return fail(err, ENOMEM, "no memory for the ages of %zu pages", ages->room);
	}
	return 0;
}

/* The rows of each zone, in recorded order. */
static int queues_new(struct reclaim *rc, const struct model *m, struct error *err)
{
	size_t zones = (size_t)m->nr_zones;
	uint32_t *last = malloc(zones * sizeof(*last));

	rc->heads = malloc(zones * sizeof(*rc->heads));
	rc->links = malloc(zones * sizeof(*rc->links));
	rc->holders = calloc(m->nr_frames, sizeof(*rc->holders));
	if (!rc->heads || !rc->links || !rc->holders || !last) {
		free(last);
		return fail(err, ENOMEM, "no memory for the queues of %zu zones", zones);
	}
	for (size_t zone = 0; zone < zones; zone++)
		rc->heads[zone] = last[zone] = NO_ROW;
	for (uint32_t i = 0; i < rc->nr; i++) {
		const struct reclaimed *row = &rc->rows[i];
		int zone;

		if (row->kind != RECLAIMED_KIND_FREE || row->frame == NO_FRAME || row->moved)
			continue;
		zone = frame_zone(m, row->frame)->number;
		if (last[zone] == NO_ROW)
			rc->heads[zone] = i;
		else
			rc->rows[last[zone]].next = i;
		last[zone] = i;
	}
	free(last);
	return 0;
}

int reclaim_start(struct reclaim *rc, struct serve *serve, struct error *err)
{
	const struct model *m = serve->model;
	int ret;

	rc->serve = serve;
	rc->moved = malloc((size_t)m->nr_zones * sizeof(*rc->moved));
	if (!rc->moved)
		return fail(err, ENOMEM, "no memory for the moved pages of %d zones", m->nr_zones);
	for (int zone = 0; zone < m->nr_zones; zone++)
		rc->moved[zone] = (struct moved){NO_ROW, NO_ROW};
	ret = queues_new(rc, m, err);
	return !ret && rc->mode == RECLAIM_SYNTHETIC ? ages_new(rc, m, err) : ret;
}

void reclaim_free(struct reclaim *rc)
{
	if (rc->ages)
		for (int zone = 0; zone < rc->serve->model->nr_zones; zone++)
			free(rc->ages[zone].ring);
	free(rc->ages);
	free(rc->heads);
	free(rc->links);
	free(rc->holders);
	free(rc->moved);
	free(rc->rows);
}

/* Where the model has the whole of a recorded page or block, or NO_FRAME. */
static uint32_t place_of_row(const struct reclaim *rc, const struct reclaimed *row)
{
	const struct serve *s = rc->serve;
	uint32_t place = serve_place(s, row->frame);

	if (place == NO_FRAME && s->map[row->frame] == MAP_UNSEEN)
		place = row->frame;
	if (place == NO_FRAME || serve_shares(s, place))
		return NO_FRAME;
	for (uint32_t i = 0; i < 1u << row->order; i++) {
		uint32_t of_page = serve_place(s, row->frame + i);
		bool old = s->map[row->frame + i] == MAP_UNSEEN &&
			   s->model->frames[row->frame + i].state == FRAME_OLD;

		if (of_page != NO_FRAME ? of_page != place + i : !old || place != row->frame)
			return NO_FRAME;
	}
	return place;
}

/* What rc->holders says of the pages of a row. */
static void hold(struct reclaim *rc, const struct reclaimed *row, uint32_t holder)
{
	for (uint32_t i = 0; i < 1u << row->order; i++)
		rc->holders[row->frame + i] = holder;
}

/* The page is the queue's now: what its pfn is used for next is another page. */
static void detach(struct reclaim *rc, struct reclaimed *row, uint32_t place)
{
	for (uint32_t i = 0; i < 1u << row->order; i++)
		rc->serve->map[row->frame + i] = MAP_FREED;
	row->frame = place;
	row->held = true;
	hold(rc, row, (uint32_t)(row - rc->rows) + 1);
}

static void release(struct model *m, uint32_t place, int order)
{
	if (m->frames[place].state != FRAME_OLD)
		block_carve(m, place, order);
	events_free(m->events, &m->now, (int64_t)frame_pfn(m, place), order);
	zone_free(m, place, order);
}

/* The page of a row that is held goes. */
static void let_go(struct reclaim *rc, struct reclaimed *row)
{
	hold(rc, row, 0);
	row->taken = true;
	release(rc->serve->model, row->frame, row->order);
}

/* The page of a row, which the queue has, waits for a free of an unknown page. */
static void live_on(struct reclaim *rc, struct reclaimed *row)
{
	struct moved *moved = &rc->moved[frame_zone(rc->serve->model, row->frame)->number];
	uint32_t number = (uint32_t)(row - rc->rows);

	if (moved->last == NO_ROW)
		moved->first = number;
	else
		rc->rows[moved->last].next = number;
	moved->last = number;
}

bool reclaim_withholds(struct reclaim *rc, uint64_t at)
{
	struct reclaimed *row;

	while (rc->next < rc->nr && rc->rows[rc->next].at < at)
		rc->next++;
	if (rc->next == rc->nr || rc->rows[rc->next].at != at)
		return false;
	row = &rc->rows[rc->next++];
	if (row->kind != RECLAIMED_KIND_FREE || row->taken || row->frame == NO_FRAME)
		return true;
	if (place_of_row(rc, row) == NO_FRAME) {
		/* The model has it in pieces or not at all: as on the record, then. */
		row->taken = true;
		return false;
	}
	detach(rc, row, place_of_row(rc, row));
	if (row->moved)
		live_on(rc, row);
	return true;
}

bool reclaim_frees_moved(struct reclaim *rc, const struct waiting *e)
{
	struct model *m = rc->serve->model;
	struct reclaimed *row;
	struct moved *moved;

	if (e->kind != EVENT_KIND_FREE || e->frame == NO_FRAME || e->order ||
	    serve_place(rc->serve, e->frame) != NO_FRAME)
		return false;
	if (rc->serve->map[e->frame] == MAP_UNSEEN && m->frames[e->frame].state == FRAME_OLD)
		return false;
	moved = &rc->moved[frame_zone(m, e->frame)->number];
	if (moved->first == NO_ROW)
		return false;
	row = &rc->rows[moved->first];
	moved->first = row->next;
	if (moved->first == NO_ROW)
		moved->last = NO_ROW;
	/* If the free is of a batch, its other half finds nothing to do. */
	rc->serve->map[e->frame] = MAP_UNSERVED;
	let_go(rc, row);
	return true;
}

/* Take one row of a queue, if it can be taken; returns its pages. */
static int64_t take_row(struct reclaim *rc, struct reclaimed *row)
{
	struct model *m = rc->serve->model;
	struct counters *counters;
	int64_t pages = 1ll << row->order;

	if (!row->held) {
		uint32_t place;

		if (row->since >= rc->serve->at)
			return 0;
		place = place_of_row(rc, row);
		if (place == NO_FRAME)
			return 0;
		detach(rc, row, place);
	}
	counters = zone_counters(m, frame_zone(m, row->frame));
	counters->reclaimed_pages += (uint64_t)pages;
	if (row->ts > m->now.ts) {
		counters->early_reclaim_pages += (uint64_t)pages;
		counters->early_reclaim_ms += (row->ts - m->now.ts) * (uint64_t)pages / NS_PER_MS;
	}
	let_go(rc, row);
	return pages;
}

/* Whether reclaim on a node for requests of up to `class_zone` takes pages of a zone. */
static bool is_in_class(const struct zone *zone, int node, int class_zone)
{
	return zone->node == node && zone->type <= class_zone;
}

/* What leads to the first of all rows that rc->links lead to, or NULL. */
static uint32_t **first_link(struct reclaim *rc, int node, int class_zone)
{
	const struct model *m = rc->serve->model;
	uint32_t **first = NULL;

	for (int i = 0; i < m->nr_zones; i++)
		if (is_in_class(&m->zones[i], node, class_zone) && *rc->links[i] != NO_ROW &&
		    (!first || *rc->links[i] < **first))
			first = &rc->links[i];
	return first;
}

static int64_t take_queued(struct reclaim *rc, int node, int class_zone, int64_t pages)
{
	int64_t freed = 0;
	uint32_t **link;

	for (int i = 0; i < rc->serve->model->nr_zones; i++)
		rc->links[i] = &rc->heads[i];
	for (int looked = 0; freed < pages && looked < LOOK_AHEAD;) {
		struct reclaimed *row;

		link = first_link(rc, node, class_zone);
		if (!link)
			break;
		row = &rc->rows[**link];
		freed += row->taken ? 0 : take_row(rc, row);
		if (row->taken) {
			**link = row->next;
		} else {
			*link = &row->next;
			looked++;
		}
	}
	return freed;
}

void reclaim_ages(struct reclaim *rc, const struct waiting *e)
{
	struct model *m = rc->serve->model;
	struct ages *ages;
	uint32_t place;

	if (e->kind != EVENT_KIND_ALLOC || e->order || e->migratetype != MIGRATETYPE_MOVABLE ||
	    e->frame == NO_FRAME)
		return;
	place = serve_place(rc->serve, e->frame);
	if (place == NO_FRAME || serve_shares(rc->serve, place))
		return;
	ages = &rc->ages[frame_zone(m, place)->number];
	if (ages->nr == ages->room) {
		ages->first = (ages->first + 1) % ages->room;
		ages->nr--;
	}
	ages->ring[(ages->first + ages->nr++) % ages->room] =
		(struct aged){rc->serve->at, e->frame, place};
}

/* The ages of the zone that has the oldest page of all, or NULL. */
static struct ages *oldest(struct reclaim *rc, int node, int class_zone)
{
	const struct model *m = rc->serve->model;
	struct ages *first = NULL;

	for (int i = 0; i < m->nr_zones; i++) {
		struct ages *ages = &rc->ages[i];

		if (is_in_class(&m->zones[i], node, class_zone) && ages->nr &&
		    (!first || ages->ring[ages->first].at < first->ring[first->first].at))
			first = ages;
	}
	return first;
}

static int64_t take_oldest(struct reclaim *rc, int node, int class_zone, int64_t pages)
{
	struct model *m = rc->serve->model;
	int64_t freed = 0;
	struct ages *ages;

	while (freed < pages && (ages = oldest(rc, node, class_zone))) {
		struct aged page = ages->ring[ages->first];

		ages->first = (ages->first + 1) % ages->room;
		ages->nr--;
		if (serve_place(rc->serve, page.frame) != page.place ||
		    m->frames[page.place].state != FRAME_USED_MOVABLE ||
		    m->frames[page.place].order)
			continue;
		rc->serve->map[page.frame] = MAP_UNSERVED;
		zone_counters(m, frame_zone(m, page.place))->synthetic_pages++;
		release(m, page.place, 0);
		freed++;
	}
	return freed;
}

int64_t reclaim_take(struct reclaim *rc, int node, int class_zone, int64_t pages)
{
	struct model *m = rc->serve->model;
	int64_t freed = take_queued(rc, node, class_zone, pages);

	if (freed < pages && rc->mode == RECLAIM_SYNTHETIC)
		freed += take_oldest(rc, node, class_zone, pages - freed);
	for (int i = 0; i < m->nr_zones && freed < pages; i++) {
		if (!is_in_class(&m->zones[i], node, class_zone))
			continue;
		zone_counters(m, &m->zones[i])->reclaim_deficit_pages += (uint64_t)(pages - freed);
		break;
	}
	return freed;
}

bool reclaim_waits(const struct reclaim *rc, int node, int class_zone)
{
	const struct model *m = rc->serve->model;

	for (int i = 0; i < m->nr_zones; i++)
		if (is_in_class(&m->zones[i], node, class_zone) && rc->heads[i] != NO_ROW)
			return true;
	return false;
}

bool reclaim_pins(const struct reclaim *rc, uint32_t page)
{
	uint32_t holder = rc->holders[page];

	return holder && rc->rows[holder - 1].order;
}

void reclaim_moved(struct reclaim *rc, uint32_t from, uint32_t to)
{
	uint32_t holder = rc->holders[from];

	if (!holder)
		return;
	rc->rows[holder - 1].frame = to;
	rc->holders[to] = holder;
	rc->holders[from] = 0;
}

void reclaim_finish(struct reclaim *rc)
{
	struct model *m = rc->serve->model;

	for (size_t i = 0; i < rc->nr; i++) {
		const struct reclaimed *row = &rc->rows[i];

		if (row->held && !row->taken && !row->moved)
			zone_counters(m, frame_zone(m, row->frame))->reclaim_saved_pages +=
				1ull << row->order;
	}
}

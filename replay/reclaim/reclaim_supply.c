// SPDX-License-Identifier: Apache-2.0
#include "reclaim_supply.h"

#include "node.h"
#include "model/memory.h"
#include "model/owed.h"
#include "model/zone.h"

#include <errno.h>

enum {
	NO_ROW = UINT32_MAX,
	LOOK_AHEAD = 4096, /* most rows of a queue skipped because their page is not in use yet */
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
		.since = VALUE_OR(c, since, i, 0),
		.frame = NO_FRAME,
		.next = NO_ROW,
		.kind = c->kind[i],
		.order = c->page_order[i],
		.moved = c->cause[i] == RECLAIMED_CAUSE_COMPACT,
		.shrunk = c->cause[i] == RECLAIMED_CAUSE_SHRINKER,
	};
	if (zone && zone->end - zone->start - (c->pfn[i] - zone->start_pfn) >= 1u << row->order)
		row->frame = zone->base + (uint32_t)(c->pfn[i] - zone->base_pfn);
	return 0;
}

int reclaim_supply_load(struct reclaim_supply *supply, const struct model *m,
			const struct reclaimed_columns *columns, size_t rows, uint64_t first,
			struct error *err)
{
	size_t room = supply->nr + rows;
	int ret = 0;

	if (room > NO_ROW)
		return fail(err, E2BIG, "reclaimed: %zu rows", room);
	if (grow(m->arrays, &supply->rows, &supply->room, room, sizeof(*supply->rows), err))
		return -ENOMEM;
	for (size_t i = 0; i < rows && !ret; i++) {
		if (columns->at[i] < first)
			continue;
		if (supply->nr && columns->at[i] <= supply->rows[supply->nr - 1].at)
			return fail(err, EINVAL,
				    "reclaimed: row %zu goes back from event %llu to %llu",
				    supply->nr, (unsigned long long)supply->rows[supply->nr - 1].at,
				    (unsigned long long)columns->at[i]);
		ret = load_row(&supply->rows[supply->nr], m, columns, i, err);
		supply->nr += !ret;
	}
	return ret;
}

/* The rows of each zone, in recorded order. */
static int queues_new(struct reclaim_supply *supply, const struct model *m, struct error *err)
{
	size_t zones = (size_t)m->nr_zones;
	uint32_t *last = arrays_new(m->arrays, zones, sizeof(*last));

	supply->heads = arrays_new(m->arrays, zones, sizeof(*supply->heads));
	supply->links = arrays_new(m->arrays, zones, sizeof(*supply->links));
	supply->waiting = arrays_new(m->arrays, zones, sizeof(*supply->waiting));
	supply->holders = arrays_new(m->arrays, m->nr_frames, sizeof(*supply->holders));
	if (arrays_error(m->arrays, err))
		return -ENOMEM;
	for (size_t zone = 0; zone < zones; zone++)
		supply->heads[zone] = last[zone] = NO_ROW;
	for (uint32_t i = 0; i < supply->nr; i++) {
		const struct reclaimed *row = &supply->rows[i];
		int zone;

		if (row->kind != RECLAIMED_KIND_FREE || row->frame == NO_FRAME || row->moved)
			continue;
		zone = frame_zone(m, row->frame)->number;
		supply->waiting[zone] += 1ull << row->order;
		if (!row->since)
			supply->ages.found += 1ull << row->order;
		if (row->shrunk)
			continue;
		if (last[zone] == NO_ROW)
			supply->heads[zone] = i;
		else
			supply->rows[last[zone]].next = i;
		last[zone] = i;
	}
	return 0;
}

int reclaim_supply_start(struct reclaim_supply *supply, struct model *m, struct page_map *pages,
			 const uint64_t *row, struct error *err)
{
	int ret;

	supply->model = m;
	supply->pages = pages;
	supply->row = row;
	if (!supply->how)
		supply->how = &plain_free;
	supply->moved = arrays_new(m->arrays, (size_t)m->nr_zones, sizeof(*supply->moved));
	supply->shrinkable =
		arrays_new(m->arrays, (size_t)m->nr_zones, sizeof(*supply->shrinkable));
	supply->shrinkers = arrays_new(m->arrays, (size_t)m->nr_nodes, sizeof(*supply->shrinkers));
	if (arrays_error(m->arrays, err))
		return -ENOMEM;
	for (int zone = 0; zone < m->nr_zones; zone++)
		supply->moved[zone] = supply->shrinkable[zone] = (struct held_rows){NO_ROW, NO_ROW};
	ret = queues_new(supply, m, err);
	ret = ret ?: ages_start(&supply->ages, m, pages, supply->mode == RECLAIM_SYNTHETIC, err);
	if (!ret)
		ages_spread_old(&supply->ages, supply->waiting);
	return ret;
}

/* Where the model has the whole recorded block, or NO_FRAME. */
static uint32_t place_of_row(const struct reclaim_supply *supply, const struct reclaimed *row)
{
	const struct page_map *pages = supply->pages;
	const struct model *m = supply->model;
	uint32_t place = page_map_place(pages, row->frame);
	bool old;

	if (place == NO_FRAME && pages->map[row->frame] == MAP_UNSEEN)
		place = row->frame;
	if (place == NO_FRAME || place & ((1u << row->order) - 1))
		return NO_FRAME;
	if (page_map_is_shared(pages, place) &&
	    (row->order || !pages->split || !pages->split(pages->self, place)))
		return NO_FRAME;
	old = m->frames[place].state == FRAME_OLD;
	if (!old && m->frames[block_head(m, place)].order < row->order)
		return NO_FRAME;
	for (uint32_t i = 0; i < 1u << row->order; i++)
		if (old ? pages->map[row->frame + i] != MAP_UNSEEN ||
				    m->frames[row->frame + i].state != FRAME_OLD ||
				    place != row->frame
			: page_map_place(pages, row->frame + i) != place + i)
			return NO_FRAME;
	return place;
}

/* Set supply->holders of the pages of a row. */
static void hold(struct reclaim_supply *supply, const struct reclaimed *row, uint32_t holder)
{
	for (uint32_t i = 0; i < 1u << row->order; i++)
		supply->holders[row->frame + i] = holder;
}

/* Count the pages of a queued row into, or out of, those of a zone that wait for reclaim. */
static void count_waiting(struct reclaim_supply *supply, const struct reclaimed *row, int sign)
{
	uint64_t *waiting = &supply->waiting[frame_zone(supply->model, row->frame)->number];

	if (!row->moved)
		*waiting += (uint64_t)sign << row->order;
}

/* The queue takes the page. The next page at its pfn is another one. */
static void detach(struct reclaim_supply *supply, struct reclaimed *row, uint32_t place)
{
	count_waiting(supply, row, -1);
	page_map_set(supply->pages, row->frame, row->order, MAP_FREED, false);
	row->frame = place;
	row->held = true;
	count_waiting(supply, row, 1);
	hold(supply, row, (uint32_t)(row - supply->rows) + 1);
}

static void release(const struct reclaim_supply *supply, uint32_t place, int order)
{
	struct free_request how = *supply->how;
	struct model *m = supply->model;

	if (m->frames[place].state != FRAME_OLD)
		block_carve(m, place, order);
	events_free(m->events, &m->now, (int64_t)frame_pfn(m, place), order);
	how.movable = true;
	zone_free_as(m, place, order, &how);
}

/* Free the page of a held row. */
static void let_go(struct reclaim_supply *supply, struct reclaimed *row)
{
	hold(supply, row, 0);
	count_waiting(supply, row, -1);
	row->taken = true;
	release(supply, row->frame, row->order);
}

/* Add a held row as the last. */
static void held_add(struct reclaim_supply *supply, struct held_rows *of_zones,
		     struct reclaimed *row)
{
	struct held_rows *rows = &of_zones[frame_zone(supply->model, row->frame)->number];
	uint32_t number = (uint32_t)(row - supply->rows);

	if (rows->last == NO_ROW)
		rows->first = number;
	else
		supply->rows[rows->last].next = number;
	rows->last = number;
}

/* Remove the first row, which there is. */
static struct reclaimed *held_pop(struct reclaim_supply *supply, struct held_rows *rows)
{
	struct reclaimed *row = &supply->rows[rows->first];

	rows->first = row->next;
	if (rows->first == NO_ROW)
		rows->last = NO_ROW;
	return row;
}

/* A shrinker frees the page of a held row. Returns the pages. */
static int64_t shrink(struct reclaim_supply *supply, struct reclaimed *row)
{
	int64_t pages = 1ll << row->order;

	zone_counters(supply->model, frame_zone(supply->model, row->frame))->reclaimed_pages +=
		(uint64_t)pages;
	let_go(supply, row);
	return pages;
}

void reclaim_supply_shrinks(struct reclaim_supply *supply, int node, bool called)
{
	supply->shrinkers[node].called = called;
	supply->shrinkers[node].freed = 0;
}

int64_t reclaim_supply_shrunk(struct reclaim_supply *supply, int node)
{
	int64_t freed = supply->shrinkers[node].freed;

	supply->shrinkers[node].freed = 0;
	return freed;
}

int64_t reclaim_supply_shrink(struct reclaim_supply *supply, int node, int64_t pages)
{
	struct model *m = supply->model;
	int64_t freed = 0;

	for (int i = 0; i < m->nr_zones; i++)
		while (m->zones[i].node == node && freed < pages &&
		       supply->shrinkable[i].first != NO_ROW)
			freed += shrink(supply, held_pop(supply, &supply->shrinkable[i]));
	return freed;
}

bool reclaim_supply_withholds(struct reclaim_supply *supply, uint64_t at)
{
	struct reclaimed *row;
	uint32_t place;
	int node;

	while (supply->next < supply->nr && supply->rows[supply->next].at < at)
		supply->next++;
	if (supply->next == supply->nr || supply->rows[supply->next].at != at)
		return false;
	row = &supply->rows[supply->next++];
	if (row->kind != RECLAIMED_KIND_FREE || row->taken || row->frame == NO_FRAME)
		return true;
	place = place_of_row(supply, row);
	if (place == NO_FRAME) {
		/*
		 * The model does not have the block as a whole: serve the free as recorded. A
		 * page that compaction frees there is one that it had moved before, which lives
		 * on elsewhere, or an unused target: no page of the model goes.
		 */
		count_waiting(supply, row, -1);
		row->taken = true;
		return row->moved && !row->order;
	}
	detach(supply, row, place);
	node = frame_zone(supply->model, row->frame)->node;
	if (row->moved) {
		held_add(supply, supply->moved, row);
	} else if (row->shrunk && supply->shrinkers[node].called) {
		supply->shrinkers[node].freed += shrink(supply, row);
	} else if (pages_owed(supply->model, node, NR_ZONE - 1)) {
		pay_owed(supply->model, node, NR_ZONE - 1, 1ll << row->order);
		let_go(supply, row);
	} else if (row->shrunk) {
		held_add(supply, supply->shrinkable, row);
	}
	return true;
}

bool reclaim_supply_frees_moved(struct reclaim_supply *supply, frame_nr frame)
{
	struct model *m = supply->model;
	struct held_rows *moved;

	if (page_map_place(supply->pages, frame) != NO_FRAME)
		return false;
	if (supply->pages->map[frame] == MAP_UNSEEN && m->frames[frame].state == FRAME_OLD)
		return false;
	moved = &supply->moved[frame_zone(m, frame)->number];
	if (moved->first == NO_ROW)
		return false;
	/* The second event of a batched free then finds nothing to do. */
	supply->pages->map[frame] = MAP_UNSERVED;
	let_go(supply, held_pop(supply, moved));
	return true;
}

/* Take one row of a queue if possible. Returns the pages freed. */
static int64_t take_row(struct reclaim_supply *supply, struct reclaimed *row, int node,
			int class_zone)
{
	struct model *m = supply->model;
	struct counters *counters;
	int64_t pages = 1ll << row->order;

	if (!row->held) {
		uint32_t place;

		if (row->since >= *supply->row)
			return 0;
		if (supply->strays && !row->order)
			strays_exchange(supply->strays, row->frame, node, class_zone);
		place = place_of_row(supply, row);
		if (place == NO_FRAME)
			return 0;
		detach(supply, row, place);
	}
	counters = zone_counters(m, frame_zone(m, row->frame));
	counters->reclaimed_pages += (uint64_t)pages;
	if (row->ts > m->now.ts) {
		counters->early_reclaim_pages += (uint64_t)pages;
		counters->early_reclaim_ms += (row->ts - m->now.ts) * (uint64_t)pages / NS_PER_MS;
	}
	let_go(supply, row);
	return pages;
}

/* The link of the class in supply->links with the earliest row, or NULL. */
static uint32_t **first_link(struct reclaim_supply *supply, int node, int class_zone)
{
	const struct model *m = supply->model;
	uint32_t **first = NULL;

	for (int i = 0; i < m->nr_zones; i++)
		if (is_in_class(&m->zones[i], node, class_zone) && *supply->links[i] != NO_ROW &&
		    (!first || *supply->links[i] < **first))
			first = &supply->links[i];
	return first;
}

static int64_t take_queued(struct reclaim_supply *supply, int node, int class_zone, int64_t pages)
{
	int64_t freed = 0;
	uint32_t **link;

	for (int i = 0; i < supply->model->nr_zones; i++)
		supply->links[i] = &supply->heads[i];
	for (int looked = 0; freed < pages && looked < LOOK_AHEAD;) {
		struct reclaimed *row;

		link = first_link(supply, node, class_zone);
		if (!link)
			break;
		row = &supply->rows[**link];
		freed += row->taken ? 0 : take_row(supply, row, node, class_zone);
		if (row->taken) {
			**link = row->next;
		} else {
			*link = &row->next;
			looked++;
		}
	}
	return freed;
}

/* Free the oldest pages that look reclaimable. Returns the pages freed. */
static int64_t take_oldest(struct reclaim_supply *supply, int node, int class_zone, int64_t pages)
{
	struct model *m = supply->model;
	int64_t freed = 0;
	frame_nr frame;

	while (freed < pages &&
	       (frame = ages_take_old(&supply->ages, node, class_zone)) != NO_FRAME) {
		supply->pages->map[frame] = MAP_UNSERVED;
		zone_counters(m, frame_zone(m, frame))->synthetic_pages++;
		release(supply, frame, 0);
		freed++;
	}
	while (freed < pages && (frame = ages_take(&supply->ages, node, class_zone)) != NO_FRAME) {
		uint32_t place = page_map_place(supply->pages, frame);
		int order = m->frames[place].order;

		page_map_set(supply->pages, frame, order, MAP_UNSERVED, false);
		zone_counters(m, frame_zone(m, place))->synthetic_pages += 1ull << order;
		release(supply, place, order);
		freed += 1ll << order;
	}
	return freed;
}

/* Free pages of batches that nobody uses. Returns the pages freed. */
static int64_t take_unused(struct reclaim_supply *supply, int node, int class_zone, int64_t pages)
{
	const struct page_map *map = supply->pages;
	const struct model *m = supply->model;
	int64_t freed = 0;

	for (int i = 0; i < m->nr_zones && map->split_some && freed < pages; i++)
		if (is_in_class(&m->zones[i], node, class_zone))
			freed += map->split_some(map->self, &m->zones[i], pages - freed);
	return freed;
}

/* The largest zone of a class, or NULL. */
static struct zone *largest_zone(const struct model *m, int node, int class_zone)
{
	struct zone *largest = NULL;

	for (int i = 0; i < m->nr_zones; i++)
		if (is_in_class(&m->zones[i], node, class_zone) &&
		    (!largest || m->zones[i].managed > largest->managed))
			largest = &m->zones[i];
	return largest;
}

int64_t reclaim_supply_take(struct reclaim_supply *supply, int node, int class_zone, int64_t pages)
{
	struct model *m = supply->model;
	struct zone *zone = largest_zone(m, node, class_zone);
	int64_t owed = pages_owed(m, node, class_zone), freed;

	if (owed)
		pay_owed(m, node, class_zone, take_queued(supply, node, class_zone, owed));
	freed = take_queued(supply, node, class_zone, pages);
	if (freed < pages)
		freed += take_unused(supply, node, class_zone, pages - freed);
	if (freed < pages)
		freed += take_oldest(supply, node, class_zone, pages - freed);
	if (freed < pages && zone)
		zone_counters(m, zone)->reclaim_deficit_pages += (uint64_t)(pages - freed);
	return freed;
}

void reclaim_supply_owe(struct reclaim_supply *supply, int node, int class_zone, int64_t pages)
{
	struct zone *zone = largest_zone(supply->model, node, class_zone);

	if (zone)
		owe_pages(supply->model, zone, pages);
}

bool reclaim_supply_waits(const struct reclaim_supply *supply, int node, int class_zone)
{
	const struct model *m = supply->model;

	for (int i = 0; i < m->nr_zones; i++)
		if (is_in_class(&m->zones[i], node, class_zone) && supply->heads[i] != NO_ROW)
			return true;
	return false;
}

bool reclaim_supply_pins(const struct reclaim_supply *supply, frame_nr page)
{
	uint32_t holder = supply->holders[page];

	return holder && supply->rows[holder - 1].order;
}

void reclaim_supply_moved(struct reclaim_supply *supply, uint32_t from, uint32_t to)
{
	uint32_t holder = supply->holders[from];

	if (!holder)
		return;
	supply->rows[holder - 1].frame = to;
	supply->holders[to] = holder;
	supply->holders[from] = 0;
}

void reclaim_supply_finish(struct reclaim_supply *supply)
{
	struct model *m = supply->model;

	for (size_t i = 0; i < supply->nr; i++) {
		const struct reclaimed *row = &supply->rows[i];

		if (row->held && !row->taken && !row->moved)
			zone_counters(m, frame_zone(m, row->frame))->reclaim_saved_pages +=
				1ull << row->order;
	}
}

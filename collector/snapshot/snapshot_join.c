// SPDX-License-Identifier: Apache-2.0
/* The copies of all passes, joined to one state of the lists. */
#include "snapshot_precopy.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Entries in a row: nodes[first .. first + nr), last one first if backward. */
struct run {
	uint64_t first, nr;
	bool backward, at_cut;
};

/* A list as runs, head first. A segment adds two runs at most: its own, and one that it cuts. */
struct run_list {
	struct run *runs;
	uint32_t nr;
};

/* One entry of a zone's free lists: its page, and when it was visited. */
struct visited {
	uint64_t pfn;
	uint64_t node;     /* index in the image's nodes: later visits have larger ones */
	uint64_t position; /* index in joined.nodes */
	uint32_t list;
	bool at_cut;
};

struct join {
	struct snapshot_images *im;
	const struct precopy_data *data;
	struct joined *joined;
	uint32_t *by_list; /* indices of segments, of one list after the other, oldest first */
	uint32_t nr_segments;
	struct run_list list;
	struct visited *visited; /* of one zone, in the order of joined.nodes */
	uint64_t nr_visited;
};

static uint64_t node_at(const struct run *run, uint64_t i)
{
	return run->backward ? run->first + run->nr - 1 - i : run->first + i;
}

/* The latest visit of `node`: its run and its place there. */
static bool find_node(const struct join *j, uint64_t node, uint32_t *found_run, uint64_t *found)
{
	uint64_t latest = 0;
	bool any = false;

	for (uint32_t r = 0; r < j->list.nr; r++) {
		const struct run *run = &j->list.runs[r];

		for (uint64_t i = 0; i < run->nr; i++) {
			uint64_t at = node_at(run, i);

			if (j->im->nodes[at] != node || (any && at < latest))
				continue;
			any = true;
			latest = at;
			*found_run = r;
			*found = i;
		}
	}
	return any;
}

static void insert_run(struct run_list *list, uint32_t at, struct run run)
{
	if (!run.nr)
		return;
	memmove(list->runs + at + 1, list->runs + at, (list->nr - at) * sizeof(run));
	list->runs[at] = run;
	list->nr++;
}

/* The list from its entry `i` of run `r` on, or up to it. */
static void keep_from(struct run_list *list, uint32_t r, uint64_t i)
{
	struct run *run = &list->runs[r];

	if (!run->backward)
		run->first += i;
	run->nr -= i;
	memmove(list->runs, list->runs + r, (list->nr - r) * sizeof(*run));
	list->nr -= r;
}

static void keep_up_to(struct run_list *list, uint32_t r, uint64_t i)
{
	struct run *run = &list->runs[r];

	if (run->backward)
		run->first += run->nr - i - 1;
	run->nr = i + 1;
	list->nr = r + 1;
}

static void reverse(struct run *runs, uint32_t nr)
{
	for (uint32_t i = 0; i < nr / 2; i++) {
		struct run run = runs[i];

		runs[i] = runs[nr - 1 - i];
		runs[nr - 1 - i] = run;
	}
}

/* Turn the list over, so that the entry `i` of run `r` is the first one. */
static void turn_to(struct run_list *list, uint32_t r, uint64_t i)
{
	struct run before = list->runs[r];

	if (i) {
		before.nr = i;
		if (before.backward)
			before.first += list->runs[r].nr - i;
		else
			list->runs[r].first += i;
		list->runs[r].nr -= i;
		insert_run(list, r, before);
		r++;
	}
	reverse(list->runs, r);
	reverse(list->runs + r, list->nr - r);
	reverse(list->runs, list->nr);
}

/*
 * A walk from an end ends at a known entry. In a PCP, what was before that entry is gone. In a free
 * list it is gone, or at the other end: compaction turns lists over, without an event
 * (move_freelist_head of mm/compaction.c). The last walk, from the tail at the cut, decides.
 */
static bool apply_segment(struct join *j, const struct segment *segment)
{
	bool turns = segment->list < j->im->control->nr_zones * SNAPSHOT_MAX_LISTS &&
		     !(segment->backward && segment->at_cut);
	struct run run = {segment->first, segment->nr, segment->backward, segment->at_cut};
	uint32_t r;
	uint64_t i;

	if (segment->end == WALK_WHOLE)
		j->list.nr = 0;
	else if (segment->end != WALK_KNOWN || !find_node(j, segment->known, &r, &i))
		return false;
	else if (!turns && segment->backward)
		keep_up_to(&j->list, r, i);
	else if (!turns)
		keep_from(&j->list, r, i);
	else if (!segment->backward)
		turn_to(&j->list, r, i);
	else if (i + 1 < j->list.runs[r].nr)
		turn_to(&j->list, r, i + 1);
	else if (r + 1 < j->list.nr)
		turn_to(&j->list, r + 1, 0);
	insert_run(&j->list, segment->backward ? j->list.nr : 0, run);
	return true;
}

static int compare_segments(const void *left, const void *right, void *arg)
{
	const struct segment *segments = arg;
	uint32_t l = *(const uint32_t *)left, r = *(const uint32_t *)right;

	if (segments[l].list != segments[r].list)
		return segments[l].list < segments[r].list ? -1 : 1;
	return l < r ? -1 : l > r;
}

/* The first of the list's segments in by_list. */
static uint32_t first_segment(const struct join *j, uint32_t list)
{
	uint32_t low = 0, high = j->nr_segments;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (j->data->segments[j->by_list[middle]].list < list)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Put the segments of one list together. */
static bool make_runs(struct join *j, uint32_t list)
{
	j->list.nr = 0;
	for (uint32_t i = first_segment(j, list); i < j->nr_segments; i++) {
		const struct segment *segment = &j->data->segments[j->by_list[i]];

		if (segment->list != list)
			break;
		if (!apply_segment(j, segment)) {
			j->joined->wrong_list = list;
			return false;
		}
	}
	return true;
}

static void add_node(struct joined *joined, uint64_t node)
{
	assert(joined->nr < joined->room);
	joined->nodes[joined->nr++] = node;
}

/* --- PCPs --- */

static bool join_pcp(struct join *j, uint32_t pcp)
{
	const struct control *c = j->im->control;

	for (uint32_t l = 0; l < layout_pcp_lists(&c->layout); l++) {
		struct list_image *to = &j->im->pcps[pcp].list[l];

		if (!make_runs(j, snapshot_list_of_pcp(c->nr_zones, pcp, l)))
			return false;
		to->first = (uint32_t)j->joined->nr;
		for (uint32_t r = 0; r < j->list.nr; r++)
			for (uint64_t i = 0; i < j->list.runs[r].nr; i++)
				add_node(j->joined, j->im->nodes[node_at(&j->list.runs[r], i)]);
		to->nr = (uint32_t)j->joined->nr - to->first;
	}
	return true;
}

/* --- zones --- */

static uint64_t pfn_of(const struct join *j, uint64_t node)
{
	const struct control *c = j->im->control;

	return (node - c->layout.page_lru - c->vmemmap) / c->layout.page_size;
}

static bool in_image(const struct join *j, uint64_t pfn)
{
	unsigned int shift = j->im->control->section_shift;
	uint64_t in_section = pfn & ((1ull << shift) - 1);
	uint64_t first = j->data->section_bits[pfn >> shift];

	return first != SNAPSHOT_NO_SECTION &&
	       j->data->bits[first + in_section / 64].in_image >> pfn % 64 & 1;
}

static void add_visited(struct join *j, uint32_t list, const struct run *run, uint64_t i)
{
	uint64_t at = node_at(run, i);

	j->visited[j->nr_visited++] = (struct visited){
		.pfn = pfn_of(j, j->im->nodes[at]),
		.node = at,
		.position = j->joined->nr,
		.list = list,
		.at_cut = run->at_cut,
	};
	add_node(j->joined, j->im->nodes[at]);
}

/* By page, the latest visit last. */
static int compare_visits(const void *left, const void *right)
{
	const struct visited *l = left, *r = right;

	if (l->pfn != r->pfn)
		return l->pfn < r->pfn ? -1 : 1;
	return l->node < r->node ? -1 : l->node > r->node;
}

/* The visit of a page, if it has one; `visited` is sorted. */
static struct visited *find_visit(struct join *j, uint64_t pfn)
{
	uint64_t low = 0, high = j->nr_visited;

	while (low < high) {
		uint64_t middle = (low + high) / 2;

		if (j->visited[middle].pfn < pfn)
			low = middle + 1;
		else
			high = middle;
	}
	return low < j->nr_visited && j->visited[low].pfn == pfn ? &j->visited[low] : NULL;
}

/* Entries that are gone, or that another visit found elsewhere later, leave joined.nodes. */
static void drop_visits(struct join *j, uint32_t z)
{
	const struct control *c = j->im->control;
	uint64_t left = 0;

	qsort(j->visited, j->nr_visited, sizeof(*j->visited), compare_visits);
	for (uint64_t i = 0; i < j->nr_visited; i++) {
		const struct visited *v = &j->visited[i];

		if ((i + 1 < j->nr_visited && v[1].pfn == v->pfn) || !in_image(j, v->pfn))
			j->joined->nodes[v->position] = 0;
		else
			j->visited[left++] = *v;
	}
	j->nr_visited = left;
	for (uint64_t i = j->im->places[z].settled; i < c->cut_touches; i++) {
		const struct touch *touch = &j->data->touches[i];
		struct visited *v = find_visit(j, touch->pfn);

		if (v && !v->at_cut && touch->state != 1 + v->list / SNAPSHOT_MAX_TYPES)
			j->joined->nodes[v->position] = 0;
	}
}

/* Close the gaps in the zone's part of joined.nodes. */
static void close_gaps(struct join *j, uint32_t z)
{
	uint64_t to = 0;

	for (uint32_t l = 0; l < SNAPSHOT_MAX_LISTS; l++) {
		struct list_image *list = &j->im->zones[z].list[l];
		uint64_t from = list->first;

		if (!list_exists(j->im, l))
			continue;
		if (!to)
			to = from;
		list->first = (uint32_t)to;
		for (uint32_t i = 0; i < list->nr; i++)
			if (j->joined->nodes[from + i])
				j->joined->nodes[to++] = j->joined->nodes[from + i];
		list->nr = (uint32_t)to - list->first;
		j->joined->nr = to;
	}
}

/* The entry beside the known one must be the one that the walk at the cut saw there. */
static bool fits_beyond(const struct join *j, uint32_t z, uint32_t l, const struct segment *segment)
{
	const struct kernel_layout *layout = &j->im->control->layout;
	const struct list_image *list = &j->im->zones[z].list[l];
	const uint64_t *nodes = j->joined->nodes + list->first;
	uint64_t head = j->im->places[z].address + layout->zone.free_area.offset +
			l / SNAPSHOT_MAX_TYPES * layout->free_area_size + layout->free_list.offset +
			l % SNAPSHOT_MAX_TYPES * 16;

	for (uint32_t i = 0; i < list->nr; i++) {
		uint32_t beside = segment->backward ? i - 1 : i + 1; /* -1 is large */

		if (nodes[i] == segment->known)
			return segment->beyond == (beside < list->nr ? nodes[beside] : head);
	}
	return false;
}

static enum join_result check_zone(const struct join *j, uint32_t z)
{
	const struct kernel_layout *l = &j->im->control->layout;
	const struct zone_image *zi = &j->im->zones[z];
	uint64_t blocks = 0;

	for (uint32_t list = 0; list < SNAPSHOT_MAX_LISTS; list++) {
		uint32_t number = snapshot_list_of_zone(z, list), order = list / SNAPSHOT_MAX_TYPES;

		if (!list_exists(j->im, list))
			continue;
		for (uint32_t i = first_segment(j, number); i < j->nr_segments; i++) {
			const struct segment *segment = &j->data->segments[j->by_list[i]];

			if (segment->list != number)
				break;
			if (segment->at_cut && segment->end == WALK_KNOWN &&
			    !fits_beyond(j, z, list, segment)) {
				j->joined->wrong_list = number;
				return MISCOUNTED;
			}
		}
		blocks += zi->list[list].nr;
		if (list % SNAPSHOT_MAX_TYPES + 1 < layout_types(l))
			continue;
		if (blocks != nr_free(l, zi->before, order)) {
			j->joined->wrong_list = number;
			return MISCOUNTED;
		}
		blocks = 0;
	}
	return JOINED;
}

static enum join_result join_zone(struct join *j, uint32_t z)
{
	j->nr_visited = 0;
	for (uint32_t l = 0; l < SNAPSHOT_MAX_LISTS; l++) {
		struct list_image *to = &j->im->zones[z].list[l];

		if (!list_exists(j->im, l))
			continue;
		if (!make_runs(j, snapshot_list_of_zone(z, l)))
			return CONTRADICTED;
		to->first = (uint32_t)j->joined->nr;
		for (uint32_t r = 0; r < j->list.nr; r++)
			for (uint64_t i = 0; i < j->list.runs[r].nr; i++)
				add_visited(j, l, &j->list.runs[r], i);
		to->nr = (uint32_t)j->joined->nr - to->first;
	}
	drop_visits(j, z);
	close_gaps(j, z);
	return check_zone(j, z);
}

/* --- pageblocks --- */

/* The byte of the pageblock's bits in a copy of its section, and where they begin in it. */
static uint8_t *bits_at(const struct join *j, uint32_t z, uint64_t pfn, bool after,
			unsigned int *shift)
{
	const struct control *c = j->im->control;
	const struct zone_place *place = &j->im->places[z];
	uint64_t section = (pfn >> c->section_shift) - (place->start_pfn >> c->section_shift);
	uint64_t bit = (pfn & ((1ull << c->section_shift) - 1)) >> c->pageblock_order;
	struct section_image *si = &j->data->sections[place->first_section + section];

	bit *= c->block_bits;
	*shift = bit % 8;
	return (after ? si->after : si->before) + bit / 8;
}

static uint64_t first_pfn(const struct zone_place *place, unsigned int order)
{
	return place->start_pfn >> order << order;
}

/* Whether an allocation changed the pageblock's type after the cut. */
static bool claimed_later(const struct join *j, uint64_t pfn)
{
	const struct control *c = j->im->control;

	for (uint64_t i = c->cut_claims; i < c->nr_claims; i++)
		if (j->data->claims[i].pfn == pfn)
			return true;
	return false;
}

bool precopy_full(const struct control *c)
{
	return c->nr_nodes_used > c->max_nodes || c->nr_touches > c->max_touches ||
	       c->nr_claims > c->max_claims || c->nr_segments > c->max_segments;
}

/* Make `before` show the cut. False: a type changed between the two copies, without an event. */
static bool join_blocks(struct join *j, uint32_t z)
{
	const struct control *c = j->im->control;
	const struct zone_place *place = &j->im->places[z];
	uint64_t end = place->start_pfn + place->spanned;
	uint8_t mask = (uint8_t)((1u << c->block_bits) - 1);
	unsigned int shift;

	/* What an allocation changed before the cut was read again there. */
	for (uint64_t i = c->claims_from; i < c->cut_claims; i++) {
		const struct claim *claim = &j->data->claims[i];

		if (claim->zone_at_cut != 1 + z)
			continue;
		for (int after = 0; after < 2; after++) {
			uint8_t *bits = bits_at(j, z, claim->pfn, after, &shift);

			*bits = (uint8_t)((*bits & ~(mask << shift)) | (claim->bits & mask)
									       << shift);
		}
	}
	for (uint64_t pfn = first_pfn(place, c->pageblock_order); pfn < end;
	     pfn += 1ull << c->pageblock_order) {
		const uint8_t *before = bits_at(j, z, pfn, false, &shift);
		const uint8_t *after = bits_at(j, z, pfn, true, &shift);

		if ((*before ^ *after) >> shift & mask && !claimed_later(j, pfn))
			return false;
	}
	return true;
}

/* Room for the result, which has each visit at most once. */
static bool make_room(struct join *j, uint64_t entries)
{
	struct joined *joined = j->joined;

	if (entries > joined->room) {
		free(joined->nodes);
		joined->nodes = malloc(entries * sizeof(*joined->nodes));
		joined->room = joined->nodes ? entries : 0;
	}
	j->by_list = malloc((j->nr_segments + 1) * sizeof(*j->by_list));
	j->list.runs = malloc((2 * j->nr_segments + 1) * sizeof(*j->list.runs));
	j->visited = malloc((entries + 1) * sizeof(*j->visited));
	return entries <= joined->room && j->by_list && j->list.runs && j->visited;
}

enum join_result precopy_join(struct snapshot_images *im, const struct precopy_data *data,
			      struct joined *joined)
{
	const struct control *c = im->control;
	struct join j = {.im = im, .data = data, .joined = joined};
	enum join_result result = JOINED;
	bool ok;

	joined->nr = 0;
	joined->wrong_list = NO_LIST;
	if (precopy_full(c))
		return CONTRADICTED;
	j.nr_segments = (uint32_t)c->nr_segments;
	ok = make_room(&j, c->nr_nodes_used);
	for (uint32_t i = 0; i < j.nr_segments && ok; i++)
		j.by_list[i] = i;
	if (ok)
		qsort_r(j.by_list, j.nr_segments, sizeof(*j.by_list), compare_segments,
			(void *)data->segments);
	for (uint32_t z = 0; z < c->nr_zones && ok && result == JOINED; z++) {
		result = join_zone(&j, z);
		if (result == JOINED && !join_blocks(&j, z))
			result = RETYPED;
		for (uint32_t cpu = 0; cpu < c->nr_cpus && ok; cpu++)
			ok = join_pcp(&j, z * c->nr_cpus + cpu);
	}
	free(j.by_list);
	free(j.list.runs);
	free(j.visited);
	if (ok && result == JOINED)
		im->nodes = joined->nodes;
	return ok ? result : CONTRADICTED;
}

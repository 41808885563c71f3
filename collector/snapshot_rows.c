// SPDX-License-Identifier: Apache-2.0
#include "snapshot_rows.h"
#include "tables.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { UNKNOWN = 0xff };

enum table_nr {
	TABLE_ZONE,
	TABLE_FREE_AREA,
	TABLE_BLOCK_COUNT,
	TABLE_PCP,
	TABLE_FREE_BLOCK,
	TABLE_PCP_PAGE,
	TABLE_PAGEBLOCK,
};

static const struct table *const table_of[SNAPSHOT_TABLES] = {
	[TABLE_ZONE] = &zone_table,
	[TABLE_FREE_AREA] = &free_area_table,
	[TABLE_BLOCK_COUNT] = &block_count_table,
	[TABLE_PCP] = &pcp_table,
	[TABLE_FREE_BLOCK] = &free_block_table,
	[TABLE_PCP_PAGE] = &pcp_page_table,
	[TABLE_PAGEBLOCK] = &pageblock_table,
};

/* --- reading copies of kernel structs --- */

static uint64_t read_number(const uint8_t *image, unsigned int offset, unsigned int size)
{
	uint64_t value = 0;

	memcpy(&value, image + offset, size <= sizeof(value) ? size : sizeof(value));
	return value;
}

static uint64_t read_field(const uint8_t *image, struct kernel_field field)
{
	return read_number(image, field.offset, field.size);
}

/* Element i of an array of longs. */
static uint64_t read_long(const uint8_t *image, struct kernel_field array, unsigned int i)
{
	return (i + 1) * sizeof(uint64_t) <= array.size
		       ? read_number(image, array.offset + i * sizeof(uint64_t), sizeof(uint64_t))
		       : 0;
}

static unsigned int nr_orders(const struct kernel_layout *l)
{
	return l->zone.free_area.size / l->free_area_size;
}

static unsigned int nr_types(const struct kernel_layout *l)
{
	return l->free_list.size / 16; /* struct list_head */
}

static unsigned int nr_pcp_lists(const struct kernel_layout *l)
{
	return l->pcp.lists.size / 16;
}

static uint64_t nr_free(const struct kernel_layout *l, const uint8_t *zone, unsigned int order)
{
	return read_number(zone,
			   l->zone.free_area.offset + order * l->free_area_size + l->nr_free.offset,
			   l->nr_free.size);
}

/* The first word of any kind of spinlock is 0 while it is free. */
static bool unlocked(const uint8_t *image, struct kernel_field lock)
{
	return !read_number(image, lock.offset, lock.size < 4 ? lock.size : 4);
}

/* --- did it move? --- */

bool list_exists(const struct snapshot_images *im, uint32_t list)
{
	const struct kernel_layout *l = &im->control->layout;

	return list / SNAPSHOT_MAX_TYPES < nr_orders(l) && list % SNAPSHOT_MAX_TYPES < nr_types(l);
}

static bool cut_short(const struct list_image *list)
{
	return list->end == WALK_LATE || list->end == WALK_FULL;
}

bool zone_cut_short(const struct snapshot_images *im, uint32_t z)
{
	for (uint32_t list = 0; list < SNAPSHOT_MAX_LISTS; list++)
		if (cut_short(&im->zones[z].list[list]))
			return true;
	return !im->zones[z].walked;
}

bool pcp_cut_short(const struct snapshot_images *im, uint32_t i)
{
	for (uint32_t list = 0; list < SNAPSHOT_MAX_PCP_LISTS; list++)
		if (cut_short(&im->pcps[i].list[list]))
			return true;
	return !im->pcps[i].walked;
}

bool zone_whole(const struct snapshot_images *im, uint32_t z)
{
	for (uint32_t list = 0; list < SNAPSHOT_MAX_LISTS; list++)
		if (list_exists(im, list) && im->zones[z].list[list].end != WALK_WHOLE)
			return false;
	return im->zones[z].walked;
}

bool zone_still(const struct snapshot_images *im, uint32_t z)
{
	const struct zone_place *place = &im->places[z];
	const struct zone_image *zi = &im->zones[z];
	const struct kernel_layout *l = &im->control->layout;

	for (uint32_t i = 0; i < place->nr_sections; i++) {
		const struct section_image *si = &im->sections[place->first_section + i];

		if (memcmp(si->before, si->after, im->control->section_bytes))
			return false;
	}
	return zone_whole(im, z) && unlocked(zi->before, l->zone.lock) &&
	       unlocked(zi->after, l->zone.lock) &&
	       !memcmp(zi->before + l->zone.free_area.offset, zi->after + l->zone.free_area.offset,
		       l->zone.free_area.size);
}

bool list_still(const struct snapshot_images *im, uint32_t z, uint32_t list)
{
	const struct zone_image *zi = &im->zones[z];
	const struct kernel_layout *l = &im->control->layout;
	unsigned int order = list / SNAPSHOT_MAX_TYPES;
	unsigned int head = l->zone.free_area.offset + order * l->free_area_size +
			    l->free_list.offset + list % SNAPSHOT_MAX_TYPES * 16;

	return zi->list[list].end == WALK_WHOLE && unlocked(zi->before, l->zone.lock) &&
	       unlocked(zi->after, l->zone.lock) &&
	       nr_free(l, zi->before, order) == nr_free(l, zi->after, order) &&
	       !memcmp(zi->before + head, zi->after + head, 16);
}

bool pcp_still(const struct snapshot_images *im, uint32_t i)
{
	const struct pcp_image *pi = &im->pcps[i];
	const struct kernel_layout *l = &im->control->layout;

	for (unsigned int list = 0; list < nr_pcp_lists(l); list++)
		if (pi->list[list].end != WALK_WHOLE)
			return false;
	return pi->walked && unlocked(pi->before, l->pcp.lock) &&
	       !memcmp(pi->before, pi->after, l->pcp_size);
}

/* --- names --- */

/* The canonical number of a name, by the names of the tape. */
static uint8_t labelled(const struct labels *labels, const char *name)
{
	for (int32_t i = 0; i < labels->nr; i++) {
		size_t length = (size_t)(labels->offsets[i + 1] - labels->offsets[i]);

		if (strlen(name) == length &&
		    !strncasecmp(name, labels->text + labels->offsets[i], length))
			return (uint8_t)i;
	}
	return UNKNOWN;
}

static uint8_t zone_number(const struct snapshot_images *im, uint32_t index)
{
	return labelled(&zone_labels, im->control->zone_name[index]);
}

/* The tape's number of one of the kernel's migratetypes. */
static uint8_t migratetype(const struct kernel_layout *l, unsigned int type)
{
	const int kernel[NR_MIGRATETYPE] = {
		[MIGRATETYPE_UNMOVABLE] = l->MIGRATE_UNMOVABLE_,
		[MIGRATETYPE_MOVABLE] = l->MIGRATE_MOVABLE_,
		[MIGRATETYPE_RECLAIMABLE] = l->MIGRATE_RECLAIMABLE_,
		[MIGRATETYPE_HIGHATOMIC] = l->MIGRATE_HIGHATOMIC_,
		[MIGRATETYPE_CMA] = l->MIGRATE_CMA_,
		[MIGRATETYPE_ISOLATE] = l->MIGRATE_ISOLATE_,
		[MIGRATETYPE_RESERVE] = -1, /* gone since 4.4 */
	};

	for (uint8_t i = 0; i < NR_MIGRATETYPE; i++)
		if (kernel[i] == (int)type)
			return i;
	return UNKNOWN;
}

/* --- pageblocks --- */

struct block {
	uint8_t type; /* MIGRATETYPE_*, UNKNOWN in a hole */
	bool isolated;
};

/* Bits of one pageblock (get_pfnblock_flags_mask, 5.19; get_pfnblock_bit, 6.17). */
unsigned int pageblock_bits(const struct kernel_layout *l)
{
	int bits = l->NR_PAGEBLOCK_BITS_ >= 0 ? l->NR_PAGEBLOCK_BITS_ : l->__NR_PAGEBLOCK_BITS_;
	unsigned int rounded = 1;

	while ((int)rounded < bits)
		rounded *= 2;
	return rounded;
}

static struct block block_at(const struct snapshot_images *im, uint32_t z, uint64_t pfn)
{
	enum { TYPE_MASK = 7 }; /* three bits of migratetype come first */
	const struct zone_place *place = &im->places[z];
	const struct kernel_layout *l = &im->control->layout;
	unsigned int shift = im->control->section_shift;
	uint64_t section = (pfn >> shift) - (place->start_pfn >> shift);
	uint64_t bit = (pfn & ((1ull << shift) - 1)) >> im->pageblock_order;
	const struct section_image *si = &im->sections[place->first_section + section];
	unsigned int bits;

	bit *= pageblock_bits(l);
	if (section >= place->nr_sections || !si->mem_map)
		return (struct block){UNKNOWN, false};
	bits = si->before[bit / 8] >> bit % 8;
	return (struct block){
		migratetype(l, bits & TYPE_MASK),
		l->PB_migrate_isolate_ >= 0 && bits >> l->PB_migrate_isolate_ & 1,
	};
}

/* --- rows --- */

struct writer {
	const struct snapshot_images *im;
	uint16_t snapshot;
	struct snapshot_zone *zones;
	struct snapshot_result *out;
	/*
	 * Of a zone in pieces, a bit for each page that has a row: its lists are of different
	 * times, and what moved in between may be in two of them. NULL for other zones.
	 */
	uint8_t *told;
};

#define COLUMNS(w, nr, name) ((struct name##_columns *)(w)->out->tables[nr]->slots)

static size_t next_row(struct writer *w, enum table_nr nr)
{
	struct batch *batch = w->out->tables[nr];

	assert(batch->nr < batch->capacity);
	return batch->nr++;
}

/* When the lists of zone z were as they are told. */
static uint64_t zone_ts(const struct writer *w, uint32_t z)
{
	return w->zones[z].how == SNAPSHOT_PIECES ? w->im->zones[z].begin_ns : w->out->cut_ns;
}

static void check(uint64_t *done, uint64_t *wrong, bool ok)
{
	++*done;
	*wrong += !ok;
}

/* The pfn of an entry; false unless it is a page of the zone, aligned to its order. */
static bool entry_pfn(const struct writer *w, uint32_t z, uint64_t node, unsigned int order,
		      uint64_t *pfn)
{
	const struct control *c = w->im->control;
	const struct zone_place *place = &w->im->places[z];
	uint64_t offset = node - c->layout.page_lru - c->vmemmap;

	*pfn = offset / c->layout.page_size;
	return offset % c->layout.page_size == 0 && *pfn >= place->start_pfn &&
	       *pfn + (1ull << order) <= place->start_pfn + place->spanned &&
	       !(*pfn & ((1ull << order) - 1));
}

/* From 6.10 on a free page is on the list of its pageblock's type (account_freepages). */
static bool lists_follow_blocks(const struct kernel_layout *l)
{
	return l->zone.nr_free_highatomic.size > 0;
}

static bool agrees_with_blocks(const struct snapshot_images *im, uint32_t z, uint64_t pfn,
			       unsigned int order, uint8_t type)
{
	for (uint64_t at = pfn; at < pfn + (1ull << order); at += 1ull << im->pageblock_order) {
		struct block block = block_at(im, z, at);

		if ((block.isolated ? MIGRATETYPE_ISOLATE : block.type) != type)
			return false;
	}
	return true;
}

/* Whether no row has told of any of these pages yet. */
static bool first_told(struct writer *w, uint32_t z, uint64_t pfn, unsigned int order)
{
	uint64_t first = pfn - w->im->places[z].start_pfn, end = first + (1ull << order);

	if (!w->told)
		return true;
	for (uint64_t page = first; page < end; page++)
		if (w->told[page / 8] >> page % 8 & 1)
			return false;
	for (uint64_t page = first; page < end; page++)
		w->told[page / 8] |= (uint8_t)(1 << page % 8);
	return true;
}

/* Returns the number of rows. */
static uint32_t add_free_list(struct writer *w, uint32_t z, uint32_t nr)
{
	const struct snapshot_images *im = w->im;
	const struct list_image *list = &im->zones[z].list[nr];
	unsigned int order = nr / SNAPSHOT_MAX_TYPES;
	uint8_t type = migratetype(&im->control->layout, nr % SNAPSHOT_MAX_TYPES);
	bool exact = w->zones[z].how != SNAPSHOT_PIECES;
	struct snapshot_checks *checks = &w->out->checks;
	uint32_t rows = 0;

	for (uint32_t i = 0; i < list->nr; i++) {
		struct free_block_columns *to = COLUMNS(w, TABLE_FREE_BLOCK, free_block);
		uint64_t pfn;
		bool placed = entry_pfn(w, z, im->nodes[list->first + i], order, &pfn);
		size_t row;

		if (exact)
			check(&checks->places, &checks->places_wrong, placed);
		if (!placed || !first_told(w, z, pfn, order))
			continue;
		row = next_row(w, TABLE_FREE_BLOCK);
		rows++;
		if (exact && lists_follow_blocks(&im->control->layout))
			check(&checks->list_types, &checks->list_types_wrong,
			      agrees_with_blocks(im, z, pfn, order, type));
		to->snapshot[row] = w->snapshot;
		to->ts[row] = zone_ts(w, z);
		to->node[row] = w->zones[z].node;
		to->zone[row] = w->zones[z].zone;
		to->migratetype[row] = type;
		to->page_order[row] = (uint8_t)order;
		to->pfn[row] = pfn;
	}
	return rows;
}

static void add_free_area(struct writer *w, uint32_t z, uint32_t nr, uint32_t blocks)
{
	struct free_area_columns *to = COLUMNS(w, TABLE_FREE_AREA, free_area);
	size_t row = next_row(w, TABLE_FREE_AREA);

	to->snapshot[row] = w->snapshot;
	to->ts[row] = zone_ts(w, z);
	to->node[row] = w->zones[z].node;
	to->zone[row] = w->zones[z].zone;
	to->migratetype[row] = migratetype(&w->im->control->layout, nr % SNAPSHOT_MAX_TYPES);
	set_valid(to->migratetype_valid, row);
	to->page_order[row] = (uint8_t)(nr / SNAPSHOT_MAX_TYPES);
	to->nr_free[row] = blocks;
	to->capped[row] = false;
}

/* Free blocks of the zone, and what its counters say about them. Returns free pages. */
static uint64_t add_free_lists(struct writer *w, uint32_t z)
{
	const struct snapshot_images *im = w->im;
	const struct kernel_layout *l = &im->control->layout;
	struct snapshot_checks *checks = &w->out->checks;
	uint64_t pages = 0;

	for (unsigned int order = 0; order < nr_orders(l); order++) {
		uint64_t blocks = 0;

		for (unsigned int type = 0; type < nr_types(l); type++) {
			uint32_t nr = order * SNAPSHOT_MAX_TYPES + type, rows, entries;

			if (migratetype(l, type) == UNKNOWN)
				continue;
			rows = add_free_list(w, z, nr);
			entries = w->zones[z].how == SNAPSHOT_PIECES ? rows
								     : im->zones[z].list[nr].nr;
			add_free_area(w, z, nr, entries);
			blocks += entries;
			if ((int)type != l->MIGRATE_ISOLATE_)
				pages += (uint64_t)entries << order;
		}
		w->zones[z].free_blocks += blocks;
		if (w->zones[z].how != SNAPSHOT_PIECES)
			check(&checks->list_sums, &checks->list_sums_wrong,
			      blocks == nr_free(l, im->zones[z].before, order));
	}
	return pages;
}

static void add_blocks(struct writer *w, uint32_t z)
{
	const struct zone_place *place = &w->im->places[z];
	uint64_t pages = 1ull << w->im->pageblock_order, count[NR_MIGRATETYPE] = {0};
	uint64_t end = place->start_pfn + place->spanned;

	if (end > place->first_deferred_pfn)
		end = place->first_deferred_pfn;
	for (uint64_t pfn = place->start_pfn & ~(pages - 1); pfn < end; pfn += pages) {
		struct pageblock_columns *to = COLUMNS(w, TABLE_PAGEBLOCK, pageblock);
		struct block block = block_at(w->im, z, pfn);
		size_t row;

		if (block.type == UNKNOWN)
			continue;
		row = next_row(w, TABLE_PAGEBLOCK);
		count[block.isolated ? MIGRATETYPE_ISOLATE : block.type]++;
		to->snapshot[row] = w->snapshot;
		to->ts[row] = zone_ts(w, z);
		to->node[row] = w->zones[z].node;
		to->zone[row] = w->zones[z].zone;
		to->pfn[row] = pfn;
		to->migratetype[row] = block.type;
		to->isolated[row] = block.isolated;
		if (w->im->control->layout.PB_migrate_isolate_ >= 0)
			set_valid(to->isolated_valid, row);
		to->guessed[row] = false;
	}
	for (uint8_t type = 0; type < NR_MIGRATETYPE; type++) {
		struct block_count_columns *to = COLUMNS(w, TABLE_BLOCK_COUNT, block_count);
		size_t row = next_row(w, TABLE_BLOCK_COUNT);

		to->snapshot[row] = w->snapshot;
		to->ts[row] = zone_ts(w, z);
		to->node[row] = w->zones[z].node;
		to->zone[row] = w->zones[z].zone;
		to->migratetype[row] = type;
		to->nr_blocks[row] = count[type];
	}
}

#define SET_IF(field, to, column, row, value)                                                      \
	do {                                                                                       \
		if ((field).size) {                                                                \
			(to)->column[row] = (value);                                               \
			set_valid((to)->column##_valid, row);                                      \
		}                                                                                  \
	} while (0)

/* Sum over all CPUs of the unfolded deltas of NR_FREE_PAGES. */
static int64_t free_pages_delta(const struct snapshot_images *im, uint32_t z)
{
	const struct control *c = im->control;
	int64_t sum = 0;

	for (uint32_t cpu = 0; cpu < c->nr_cpus; cpu++)
		sum += (int8_t)im->pcps[z * c->nr_cpus + cpu]
			       .stat[c->layout.vm_stat_diff.offset + c->layout.NR_FREE_PAGES_];
	return sum;
}

/*
 * The counter of free pages, checked against `pages` on the lists. Before 6.10 the allocation
 * that marks the cut is subtracted only after its tracepoint (rmqueue_buddy, 6.1).
 */
static uint64_t free_counter(struct writer *w, uint32_t z, uint64_t pages)
{
	const struct kernel_layout *l = &w->im->control->layout;
	uint64_t free =
		read_long(w->im->zones[z].before, l->zone.vm_stat, (unsigned int)l->NR_FREE_PAGES_);
	uint64_t exact = free + (uint64_t)free_pages_delta(w->im, z);

	if (w->zones[z].how == SNAPSHOT_LOCKED && !lists_follow_blocks(l) &&
	    exact == pages + (1ull << w->out->cut_order)) {
		free -= 1ull << w->out->cut_order;
		exact = pages;
	}
	if (w->zones[z].how == SNAPSHOT_LOCKED || w->zones[z].how == SNAPSHOT_STILL)
		check(&w->out->checks.free_counters, &w->out->checks.free_counters_wrong,
		      exact == pages);
	return free;
}

static void add_zone(struct writer *w, uint32_t z, uint64_t pages)
{
	const struct kernel_layout *l = &w->im->control->layout;
	const uint8_t *zone = w->im->zones[z].before;
	struct zone_columns *to = COLUMNS(w, TABLE_ZONE, zone);
	size_t row = next_row(w, TABLE_ZONE);
	uint64_t *reserve[NR_ZONE] = {
		[ZONE_DMA] = to->lowmem_reserve_dma,
		[ZONE_DMA32] = to->lowmem_reserve_dma32,
		[ZONE_NORMAL] = to->lowmem_reserve_normal,
		[ZONE_HIGHMEM] = to->lowmem_reserve_highmem,
		[ZONE_MOVABLE] = to->lowmem_reserve_movable,
		[ZONE_DEVICE] = to->lowmem_reserve_device,
	};
	uint64_t flags = read_field(zone, l->zone.flags);

	to->snapshot[row] = w->snapshot;
	to->ts[row] = zone_ts(w, z);
	to->node[row] = w->zones[z].node;
	to->zone[row] = w->zones[z].zone;
	to->start_pfn[row] = read_field(zone, l->zone.zone_start_pfn);
	to->spanned[row] = read_field(zone, l->zone.spanned_pages);
	to->present[row] = read_field(zone, l->zone.present_pages);
	to->managed[row] = read_field(zone, l->zone.managed_pages);
	to->free[row] = free_counter(w, z, pages);
	to->wmark_min[row] = read_long(zone, l->zone._watermark, 0);
	to->wmark_low[row] = read_long(zone, l->zone._watermark, 1);
	to->wmark_high[row] = read_long(zone, l->zone._watermark, 2);
	if (l->zone._watermark.size > 3 * sizeof(uint64_t)) {
		to->wmark_promo[row] = read_long(zone, l->zone._watermark, 3);
		set_valid(to->wmark_promo_valid, row);
	}
	SET_IF(l->zone.watermark_boost, to, boost, row, read_field(zone, l->zone.watermark_boost));
	for (int i = 0; i < NR_ZONE; i++)
		reserve[i][row] = 0;
	for (uint32_t i = 0; i < l->zones_per_node; i++) {
		uint8_t number = zone_number(w->im, i);

		if (number < NR_ZONE)
			reserve[number][row] = read_long(zone, l->zone.lowmem_reserve, i);
	}
	SET_IF(l->zone.nr_reserved_highatomic, to, nr_reserved_highatomic, row,
	       read_field(zone, l->zone.nr_reserved_highatomic));
	SET_IF(l->zone.nr_free_highatomic, to, nr_free_highatomic, row,
	       read_field(zone, l->zone.nr_free_highatomic));
	if (l->NR_FREE_CMA_PAGES_ >= 0) {
		to->nr_free_cma[row] =
			read_long(zone, l->zone.vm_stat, (unsigned int)l->NR_FREE_CMA_PAGES_);
		set_valid(to->nr_free_cma_valid, row);
	}
	SET_IF(l->stat_threshold, to, stat_threshold, row,
	       w->im->pcps[z * w->im->control->nr_cpus].stat[l->stat_threshold.offset]);
#define FLAG(column, bit)                                                                          \
	if (l->bit##_ >= 0) {                                                                      \
		to->column[row] = flags >> l->bit##_ & 1;                                          \
		set_valid(to->column##_valid, row);                                                \
	}
	FLAG(below_high, ZONE_BELOW_HIGH)
	FLAG(reclaim_active, ZONE_RECLAIM_ACTIVE)
	FLAG(boosted_watermark, ZONE_BOOSTED_WATERMARK)
#undef FLAG
}

enum { PCP_TYPED_ORDERS = 4 }; /* PAGE_ALLOC_COSTLY_ORDER and below: a list for each type */

/* Order and migratetype of a PCP list (order_to_pindex, 6.1 and 6.12). */
static void pcp_list_name(const struct snapshot_images *im, unsigned int list, uint8_t *order,
			  uint8_t *type)
{
	const struct kernel_layout *l = &im->control->layout;
	unsigned int types = (unsigned int)l->MIGRATE_PCPTYPES_;
	bool last = list + 1 == nr_pcp_lists(l);

	if (list < PCP_TYPED_ORDERS * types) {
		*order = (uint8_t)(list / types);
		*type = migratetype(l, list % types);
		return;
	}
	/* THP: one list of all types; since 6.10 one of MOVABLE after one of the others. */
	*order = (uint8_t)im->thp_order;
	*type = last ? MIGRATETYPE_MOVABLE : MIGRATETYPE_UNMOVABLE;
}

/*
 * Whether the pageblock has the type of the list that frees of its pages go to: all but the
 * first types share the MOVABLE list (free_unref_page, 6.12).
 */
static bool agrees_with_list(const struct snapshot_images *im, uint32_t z, uint64_t pfn,
			     uint8_t type)
{
	uint8_t of_block = block_at(im, z, pfn).type;

	return type == (of_block < MIGRATETYPE_HIGHATOMIC ? of_block : MIGRATETYPE_MOVABLE);
}

/* A PCP that moved has no rows. */
static void add_pcp_pages(struct writer *w, uint32_t z, uint32_t cpu)
{
	const struct snapshot_images *im = w->im;
	uint32_t i = z * im->control->nr_cpus + cpu;
	const struct pcp_image *pi = &im->pcps[i];
	struct snapshot_checks *checks = &w->out->checks;
	unsigned int types = (unsigned int)im->control->layout.MIGRATE_PCPTYPES_;
	bool whole = w->zones[z].how == SNAPSHOT_LOCKED || w->zones[z].how == SNAPSHOT_STILL;
	uint64_t pages = 0;

	if (!pcp_still(im, i))
		return;
	for (unsigned int nr = 0; nr < nr_pcp_lists(&im->control->layout); nr++) {
		const struct list_image *list = &pi->list[nr];
		uint8_t order, type;

		pcp_list_name(im, nr, &order, &type);
		for (uint32_t n = 0; n < list->nr; n++) {
			struct pcp_page_columns *to = COLUMNS(w, TABLE_PCP_PAGE, pcp_page);
			uint64_t pfn;
			bool placed = entry_pfn(w, z, im->nodes[list->first + n], order, &pfn);
			size_t row;

			check(&checks->places, &checks->places_wrong, placed);
			if (!placed || !first_told(w, z, pfn, order))
				continue;
			/* The lists of huge pages are not of one type each. */
			if (whole && nr < PCP_TYPED_ORDERS * types)
				check(&checks->pcp_types, &checks->pcp_types_differ,
				      agrees_with_list(im, z, pfn, type));
			row = next_row(w, TABLE_PCP_PAGE);
			to->snapshot[row] = w->snapshot;
			to->ts[row] = w->out->cut_ns;
			to->cpu[row] = (uint16_t)cpu;
			to->node[row] = w->zones[z].node;
			to->zone[row] = w->zones[z].zone;
			to->migratetype[row] = type;
			to->page_order[row] = order;
			to->pfn[row] = pfn;
		}
		pages += (uint64_t)list->nr << order;
	}
	check(&checks->pcp_sums, &checks->pcp_sums_wrong,
	      pages == read_field(pi->before, im->control->layout.pcp.count));
}

static void add_pcp(struct writer *w, uint32_t z, uint32_t cpu)
{
	const struct kernel_layout *l = &w->im->control->layout;
	const struct pcp_image *pi = &w->im->pcps[z * w->im->control->nr_cpus + cpu];
	const uint8_t *pcp = pi->before;
	struct pcp_columns *to = COLUMNS(w, TABLE_PCP, pcp);
	size_t row = next_row(w, TABLE_PCP);

	to->snapshot[row] = w->snapshot;
	to->ts[row] = w->out->cut_ns;
	to->cpu[row] = (uint16_t)cpu;
	to->node[row] = w->zones[z].node;
	to->zone[row] = w->zones[z].zone;
	to->count[row] = (uint32_t)read_field(pcp, l->pcp.count);
	to->high[row] = (uint32_t)read_field(pcp, l->pcp.high);
	to->batch[row] = (uint32_t)read_field(pcp, l->pcp.batch);
	SET_IF(l->pcp.high_min, to, high_min, row, (uint32_t)read_field(pcp, l->pcp.high_min));
	SET_IF(l->pcp.high_max, to, high_max, row, (uint32_t)read_field(pcp, l->pcp.high_max));
	SET_IF(l->pcp.alloc_factor, to, alloc_factor, row,
	       (uint8_t)read_field(pcp, l->pcp.alloc_factor));
	SET_IF(l->pcp.free_count, to, free_count, row,
	       (uint32_t)read_field(pcp, l->pcp.free_count));
	SET_IF(l->pcp.free_factor, to, free_factor, row,
	       (uint8_t)read_field(pcp, l->pcp.free_factor));
	SET_IF(l->pcp.flags, to, flags, row, (uint8_t)read_field(pcp, l->pcp.flags));
	SET_IF(l->pcp.expire, to, expire, row, (uint8_t)read_field(pcp, l->pcp.expire));
	SET_IF(l->vm_stat_diff, to, vm_stat_diff, row,
	       (int8_t)pi->stat[l->vm_stat_diff.offset + l->NR_FREE_PAGES_]);
}

/* Rows that the tables will need at most. */
static void count_rows(const struct snapshot_images *im, size_t rows[SNAPSHOT_TABLES])
{
	const struct control *c = im->control;

	for (uint32_t z = 0; z < c->nr_zones; z++) {
		rows[TABLE_ZONE]++;
		rows[TABLE_FREE_AREA] += SNAPSHOT_MAX_LISTS;
		rows[TABLE_BLOCK_COUNT] += NR_MIGRATETYPE;
		rows[TABLE_PCP] += c->nr_cpus;
		rows[TABLE_PAGEBLOCK] += (im->places[z].spanned >> im->pageblock_order) + 2;
		for (uint32_t list = 0; list < SNAPSHOT_MAX_LISTS; list++)
			rows[TABLE_FREE_BLOCK] += im->zones[z].list[list].nr;
		for (uint32_t cpu = 0; cpu < c->nr_cpus; cpu++)
			for (uint32_t list = 0; list < SNAPSHOT_MAX_PCP_LISTS; list++)
				rows[TABLE_PCP_PAGE] +=
					im->pcps[z * c->nr_cpus + cpu].list[list].nr;
	}
}

static bool is_exact(const struct snapshot_result *out, const struct snapshot_zone *zones,
		     uint32_t nr_zones)
{
	const struct snapshot_checks *checks = &out->checks;

	for (uint32_t z = 0; z < nr_zones; z++)
		if ((zones[z].how != SNAPSHOT_LOCKED && zones[z].how != SNAPSHOT_STILL) ||
		    zones[z].pcps_moved || zones[z].pcps_refused)
			return false;
	return out->marked &&
	       !(checks->list_sums_wrong + checks->free_counters_wrong + checks->pcp_sums_wrong +
		 checks->list_types_wrong + checks->places_wrong);
}

static void free_tables(struct snapshot_result *out)
{
	for (int t = 0; t < SNAPSHOT_TABLES; t++) {
		batch_free(out->tables[t]);
		out->tables[t] = NULL;
	}
}

static int make_tables(const struct snapshot_images *im, struct snapshot_result *out,
		       struct error *err)
{
	size_t rows[SNAPSHOT_TABLES] = {0};

	count_rows(im, rows);
	for (int t = 0; t < SNAPSHOT_TABLES; t++) {
		int ret = batch_new(&out->tables[t], table_of[t], rows[t] + 1, err);

		if (ret) {
			free_tables(out);
			return ret;
		}
		batch_clear(out->tables[t]);
	}
	return 0;
}

/* PCPs first: they are of the cut, and the lists of a zone in pieces are later. */
static int add_rows_of_zone(struct writer *w, uint32_t z, struct error *err)
{
	const struct snapshot_images *im = w->im;
	struct snapshot_zone *zone = &w->zones[z];
	uint64_t pages = 0;

	zone->node = (uint16_t)im->places[z].node;
	zone->zone = zone_number(im, im->places[z].index);
	zone->free_blocks = 0;
	zone->walk_ns = im->zones[z].end_ns - im->zones[z].begin_ns;
	if (zone->how == SNAPSHOT_PIECES) {
		w->told = calloc(im->places[z].spanned / 8 + 1, 1);
		if (!w->told)
			return fail(err, ENOMEM, "no memory for the pages of a zone");
	}
	for (uint32_t cpu = 0; cpu < im->control->nr_cpus; cpu++) {
		if (!im->online[cpu])
			continue;
		add_pcp(w, z, cpu);
		add_pcp_pages(w, z, cpu);
	}
	if (zone->how != SNAPSHOT_REFUSED)
		pages = add_free_lists(w, z);
	add_blocks(w, z);
	add_zone(w, z, pages);
	free(w->told);
	w->told = NULL;
	return 0;
}

int snapshot_rows(const struct snapshot_images *im, uint16_t nr, struct snapshot_zone *zones,
		  struct snapshot_result *out, struct error *err)
{
	struct writer w = {im, nr, zones, out, NULL};
	const struct control *c = im->control;
	int ret;

	for (uint32_t z = 0; z < c->nr_zones; z++)
		if (zone_number(im, im->places[z].index) == UNKNOWN)
			return fail(err, ENOTSUP, "a tape has no zone called '%s'",
				    c->zone_name[im->places[z].index]);
	out->checks = (struct snapshot_checks){0};
	ret = make_tables(im, out, err);
	for (uint32_t z = 0; z < c->nr_zones && !ret; z++)
		ret = add_rows_of_zone(&w, z, err);
	if (ret) {
		free_tables(out);
		return ret;
	}
	out->exact = is_exact(out, zones, c->nr_zones);
	return 0;
}

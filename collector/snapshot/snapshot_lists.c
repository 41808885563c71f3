// SPDX-License-Identifier: Apache-2.0
#include "snapshot_writer.h"

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

static void add_free_list(struct writer *w, uint32_t z, uint32_t nr)
{
	const struct snapshot_images *im = w->im;
	const struct list_image *list = &im->zones[z].list[nr];
	unsigned int order = nr / SNAPSHOT_MAX_TYPES;
	uint8_t type = migratetype(&im->control->layout, nr % SNAPSHOT_MAX_TYPES);
	struct snapshot_checks *checks = &w->out->checks;

	for (uint32_t i = 0; i < list->nr; i++) {
		struct free_block_columns *to = COLUMNS(w, TABLE_FREE_BLOCK, free_block);
		uint64_t pfn;
		bool placed = entry_pfn(w, z, im->nodes[list->first + i], order, &pfn);
		size_t row;

		check(&checks->places, &checks->places_wrong, placed);
		if (!placed)
			continue;
		row = next_row(w, TABLE_FREE_BLOCK);
		if (lists_follow_blocks(&im->control->layout))
			check(&checks->list_types, &checks->list_types_wrong,
			      agrees_with_blocks(im, z, pfn, order, type));
		SET_PLACE(w, z, to, row);
		to->migratetype[row] = type;
		to->page_order[row] = (uint8_t)order;
		to->pfn[row] = pfn;
	}
}

static void add_free_area(struct writer *w, uint32_t z, uint32_t nr, uint32_t blocks)
{
	struct free_area_columns *to = COLUMNS(w, TABLE_FREE_AREA, free_area);
	size_t row = next_row(w, TABLE_FREE_AREA);

	SET_PLACE(w, z, to, row);
	SET_VALUE(to, migratetype, row,
		  migratetype(&w->im->control->layout, nr % SNAPSHOT_MAX_TYPES));
	to->page_order[row] = (uint8_t)(nr / SNAPSHOT_MAX_TYPES);
	to->nr_free[row] = blocks;
	to->capped[row] = false;
}

/* Rows of the zone's free blocks, checked against its counters. Returns free pages. */
uint64_t write_free_lists(struct writer *w, uint32_t z)
{
	const struct snapshot_images *im = w->im;
	const struct kernel_layout *l = &im->control->layout;
	struct snapshot_checks *checks = &w->out->checks;
	uint64_t pages = 0;

	for (unsigned int order = 0; order < layout_orders(l); order++) {
		uint64_t blocks = 0;

		for (unsigned int type = 0; type < layout_types(l); type++) {
			uint32_t nr = order * SNAPSHOT_MAX_TYPES + type;
			uint32_t entries = im->zones[z].list[nr].nr;

			if (migratetype(l, type) == UNKNOWN)
				continue;
			add_free_list(w, z, nr);
			add_free_area(w, z, nr, entries);
			blocks += entries;
			if ((int)type != l->MIGRATE_ISOLATE_)
				pages += (uint64_t)entries << order;
		}
		w->zones[z].free_blocks += blocks;
		check(&checks->list_sums, &checks->list_sums_wrong,
		      blocks == nr_free(l, im->zones[z].before, order));
	}
	return pages;
}

enum { PCP_TYPED_ORDERS = 4 }; /* PAGE_ALLOC_COSTLY_ORDER and below: a list for each type */

/* Order and migratetype of a PCP list (order_to_pindex, 6.1 and 6.12). */
static void pcp_list_name(const struct snapshot_images *im, unsigned int list, uint8_t *order,
			  uint8_t *type)
{
	const struct kernel_layout *l = &im->control->layout;
	unsigned int types = (unsigned int)l->MIGRATE_PCPTYPES_;
	bool last = list + 1 == layout_pcp_lists(l);

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

void write_pcp_pages(struct writer *w, uint32_t z, uint32_t cpu)
{
	const struct snapshot_images *im = w->im;
	uint32_t i = z * im->control->nr_cpus + cpu;
	const struct pcp_image *pi = &im->pcps[i];
	struct snapshot_checks *checks = &w->out->checks;
	unsigned int types = (unsigned int)im->control->layout.MIGRATE_PCPTYPES_;
	uint64_t pages = 0;

	for (unsigned int nr = 0; nr < layout_pcp_lists(&im->control->layout); nr++) {
		const struct list_image *list = &pi->list[nr];
		uint8_t order, type;

		pcp_list_name(im, nr, &order, &type);
		for (uint32_t n = 0; n < list->nr; n++) {
			struct pcp_page_columns *to = COLUMNS(w, TABLE_PCP_PAGE, pcp_page);
			uint64_t pfn;
			bool placed = entry_pfn(w, z, im->nodes[list->first + n], order, &pfn);
			size_t row;

			check(&checks->places, &checks->places_wrong, placed);
			if (!placed)
				continue;
			/* The lists of huge pages are not of one type each. */
			if (nr < PCP_TYPED_ORDERS * types)
				check(&checks->pcp_types, &checks->pcp_types_differ,
				      agrees_with_list(im, z, pfn, type));
			row = next_row(w, TABLE_PCP_PAGE);
			SET_PLACE(w, z, to, row);
			to->cpu[row] = (uint16_t)cpu;
			to->migratetype[row] = type;
			to->page_order[row] = order;
			to->pfn[row] = pfn;
		}
		pages += (uint64_t)list->nr << order;
	}
	check(&checks->pcp_sums, &checks->pcp_sums_wrong,
	      pages == read_field(pi->before, im->control->layout.pcp.count));
}

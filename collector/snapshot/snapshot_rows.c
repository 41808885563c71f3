// SPDX-License-Identifier: Apache-2.0
#include "snapshot_rows.h"
#include "snapshot_writer.h"

#include <errno.h>
#include <stdlib.h>

static const struct table *const table_of[SNAPSHOT_TABLES] = {
	[TABLE_ZONE] = &zone_table,
	[TABLE_FREE_AREA] = &free_area_table,
	[TABLE_BLOCK_COUNT] = &block_count_table,
	[TABLE_PCP] = &pcp_table,
	[TABLE_FREE_BLOCK] = &free_block_table,
	[TABLE_PCP_PAGE] = &pcp_page_table,
	[TABLE_PAGEBLOCK] = &pageblock_table,
};

#define SET_IF(field, to, column, row, value)                                                      \
	do {                                                                                       \
		if ((field).size) {                                                                \
			(to)->column[row] = (value);                                               \
			set_valid((to)->column##_valid, row);                                      \
		}                                                                                  \
	} while (0)

/* A field of the image, if the kernel has it. */
#define SET_FIELD(image, field, to, column, row)                                                   \
	SET_IF(field, to, column, row, (__typeof__(*(to)->column))read_field(image, field))

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

/* The cut is an allocation from this zone, and the zone was copied right in it. */
static bool at_cut_of_zone(const struct writer *w, uint32_t z)
{
	return w->im->control->cut_zone == z;
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

	if (at_cut_of_zone(w, z) && !lists_follow_blocks(l) &&
	    exact == pages + (1ull << w->out->cut_order)) {
		free -= 1ull << w->out->cut_order;
		exact = pages;
	}
	check(&w->out->checks.free_counters, &w->out->checks.free_counters_wrong, exact == pages);
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

	SET_PLACE(w, z, to, row);
	to->start_pfn[row] = read_field(zone, l->zone.zone_start_pfn);
	to->spanned[row] = read_field(zone, l->zone.spanned_pages);
	to->present[row] = read_field(zone, l->zone.present_pages);
	to->managed[row] = read_field(zone, l->zone.managed_pages);
	to->free[row] = free_counter(w, z, pages);
	to->wmark_min[row] = read_long(zone, l->zone._watermark, 0);
	to->wmark_low[row] = read_long(zone, l->zone._watermark, 1);
	to->wmark_high[row] = read_long(zone, l->zone._watermark, 2);
	if (l->zone._watermark.size > 3 * sizeof(uint64_t))
		SET_VALUE(to, wmark_promo, row, read_long(zone, l->zone._watermark, 3));
	SET_FIELD(zone, l->zone.watermark_boost, to, boost, row);
	for (int i = 0; i < NR_ZONE; i++)
		reserve[i][row] = 0;
	for (uint32_t i = 0; i < l->zones_per_node; i++) {
		uint8_t number = zone_number(w->im, i);

		if (number < NR_ZONE)
			reserve[number][row] = read_long(zone, l->zone.lowmem_reserve, i);
	}
	SET_FIELD(zone, l->zone.nr_reserved_highatomic, to, nr_reserved_highatomic, row);
	SET_FIELD(zone, l->zone.nr_free_highatomic, to, nr_free_highatomic, row);
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

static void add_pcp(struct writer *w, uint32_t z, uint32_t cpu)
{
	const struct kernel_layout *l = &w->im->control->layout;
	const struct pcp_image *pi = &w->im->pcps[z * w->im->control->nr_cpus + cpu];
	const uint8_t *pcp = pi->before;
	struct pcp_columns *to = COLUMNS(w, TABLE_PCP, pcp);
	size_t row = next_row(w, TABLE_PCP);

	SET_PLACE(w, z, to, row);
	to->cpu[row] = (uint16_t)cpu;
	to->count[row] = (uint32_t)read_field(pcp, l->pcp.count);
	to->high[row] = (uint32_t)read_field(pcp, l->pcp.high);
	to->batch[row] = (uint32_t)read_field(pcp, l->pcp.batch);
	SET_FIELD(pcp, l->pcp.high_min, to, high_min, row);
	SET_FIELD(pcp, l->pcp.high_max, to, high_max, row);
	SET_FIELD(pcp, l->pcp.alloc_factor, to, alloc_factor, row);
	SET_FIELD(pcp, l->pcp.free_count, to, free_count, row);
	SET_FIELD(pcp, l->pcp.free_factor, to, free_factor, row);
	SET_FIELD(pcp, l->pcp.flags, to, flags, row);
	SET_FIELD(pcp, l->pcp.expire, to, expire, row);
	SET_IF(l->vm_stat_diff, to, vm_stat_diff, row,
	       (int8_t)pi->stat[l->vm_stat_diff.offset + l->NR_FREE_PAGES_]);
}

/* The most rows that the tables need. */
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

static bool is_exact(const struct snapshot_result *out)
{
	const struct snapshot_checks *checks = &out->checks;

	return out->taken &&
	       !(checks->list_sums_wrong + checks->free_counters_wrong + checks->pcp_sums_wrong +
		 checks->list_types_wrong + checks->places_wrong);
}

void snapshot_free_tables(struct snapshot_result *out)
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

	if (out->taken)
		count_rows(im, rows);
	for (int t = 0; t < SNAPSHOT_TABLES; t++) {
		int ret = batch_new(&out->tables[t], table_of[t], rows[t] + 1, err);

		if (ret) {
			snapshot_free_tables(out);
			return ret;
		}
		batch_clear(out->tables[t]);
	}
	return 0;
}

static void add_rows_of_zone(struct writer *w, uint32_t z)
{
	const struct snapshot_images *im = w->im;
	uint64_t pages;

	for (uint32_t cpu = 0; cpu < im->control->nr_cpus; cpu++) {
		if (!im->online[cpu])
			continue;
		add_pcp(w, z, cpu);
		write_pcp_pages(w, z, cpu);
	}
	pages = write_free_lists(w, z);
	write_blocks(w, z);
	add_zone(w, z, pages);
}

int snapshot_rows(const struct snapshot_images *im, uint16_t nr, struct snapshot_zone *zones,
		  struct snapshot_result *out, struct error *err)
{
	struct writer w = {im, nr, zones, out};
	const struct control *c = im->control;
	int ret;

	for (uint32_t z = 0; z < c->nr_zones; z++) {
		zones[z].node = (uint16_t)im->places[z].node;
		zones[z].zone = zone_number(im, im->places[z].index);
		zones[z].free_blocks = 0;
		if (zones[z].zone == UNKNOWN)
			return fail(err, ENOTSUP, "a tape has no zone called '%s'",
				    c->zone_name[im->places[z].index]);
	}
	out->checks = (struct snapshot_checks){0};
	ret = make_tables(im, out, err);
	if (ret)
		return ret;
	for (uint32_t z = 0; z < c->nr_zones && out->taken; z++)
		add_rows_of_zone(&w, z);
	out->exact = is_exact(out);
	return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "untold.h"

#include "zone.h"

#include <errno.h>
#include <stdlib.h>

void untold_write(struct output *o, const struct model *m, const struct untold *row)
{
	struct untold_columns *columns;
	size_t i = output_row(o, &columns);

	if (!columns)
		return;
	columns->at[i] = row->at;
	columns->ts[i] = row->ts;
	columns->cpu[i] = row->cpu;
	columns->kind[i] = row->kind;
	columns->pfn[i] = frame_pfn(m, row->frame);
	columns->page_order[i] = row->order;
	columns->migratetype[i] = row->migratetype;
	columns->pid[i] = row->pid;
	if (row->high) {
		columns->high[i] = (uint32_t)row->high;
		set_valid(columns->high_valid, i);
	}
	if (row->refill) {
		columns->alloc_factor[i] = row->alloc_factor;
		set_valid(columns->alloc_factor_valid, i);
		columns->below_high[i] = row->below_high;
		set_valid(columns->below_high_valid, i);
	}
	if (row->kind == UNTOLD_KIND_CUT) {
		columns->behind[i] = row->behind;
		set_valid(columns->behind_valid, i);
	}
	if (row->sized) {
		columns->pages[i] = (uint32_t)row->pages;
		set_valid(columns->pages_valid, i);
	}
	if (!untold_is_early(row->kind))
		return;
	columns->gfp_flags[i] = row->gfp_flags;
	set_valid(columns->gfp_flags_valid, i);
	columns->told_at[i] = row->told_at;
	set_valid(columns->told_at_valid, i);
}

/*
 * The gfp flags of a request that no event showed: those with which the kernel would
 * have come to the page's zone, and no others.
 */
static uint32_t flags_for(int migratetype, int zone)
{
	uint32_t flags = GFP_DIRECT_RECLAIM | GFP_KSWAPD_RECLAIM | GFP_IO | GFP_FS;

	if (zone == ZONE_DMA)
		flags |= GFP_DMA;
	if (migratetype == MIGRATETYPE_MOVABLE)
		flags |= GFP_MOVABLE | GFP_HIGHMEM;
	if (migratetype == MIGRATETYPE_RECLAIMABLE)
		flags |= GFP_RECLAIMABLE;
	return flags;
}

static int load_row(struct untold *row, const struct model *m, const struct untold_columns *c,
		    size_t i, struct error *err)
{
	const struct zone *zone = pfn_zone(m, c->pfn[i]);
	bool early = untold_is_early(c->kind[i]);

	if (!zone || c->cpu[i] >= m->nr_cpus || c->page_order[i] > m->max_order ||
	    c->migratetype[i] >= NR_MIGRATETYPE || c->kind[i] >= NR_UNTOLD_KIND || c->ts[i] >> 62 ||
	    (is_valid(c->alloc_factor_valid, i) && c->alloc_factor[i] > PCP_SCALE_MOST) ||
	    (is_valid(c->high_valid, i) && c->high[i] > INT32_MAX / 2) ||
	    (is_valid(c->pages_valid, i) && c->pages[i] > INT32_MAX / 2))
		return fail(err, EINVAL, "untold: row of event %llu: pfn %llu, order %d, CPU %d",
			    (unsigned long long)c->at[i], (unsigned long long)c->pfn[i],
			    c->page_order[i], c->cpu[i]);
	*row = (struct untold){
		.at = c->at[i],
		.ts = c->ts[i],
		.told_at = early && is_valid(c->told_at_valid, i) ? c->told_at[i] : UINT64_MAX,
		.frame = zone->base + (uint32_t)(c->pfn[i] - zone->base_pfn),
		.pid = c->pid[i],
		.cpu = c->cpu[i],
		.kind = c->kind[i],
		.alloc_factor = is_valid(c->alloc_factor_valid, i) ? c->alloc_factor[i] : 0,
		.below_high = is_valid(c->below_high_valid, i) && c->below_high[i],
		.refill = is_valid(c->alloc_factor_valid, i),
		.sized = is_valid(c->pages_valid, i),
		.high = is_valid(c->high_valid, i) ? (int32_t)c->high[i] : 0,
		.pages = is_valid(c->pages_valid, i) ? (int32_t)c->pages[i] : 0,
		.order = c->page_order[i],
		.migratetype = c->migratetype[i],
		.behind = is_valid(c->behind_valid, i) ? c->behind[i] : 0,
	};
	if (zone->end - row->frame < 1u << row->order)
		return fail(err, EINVAL, "untold: pfn %llu of order %d leaves its zone",
			    (unsigned long long)c->pfn[i], row->order);
	row->gfp_flags = early && is_valid(c->gfp_flags_valid, i)
				 ? c->gfp_flags[i]
				 : flags_for(row->migratetype, zone->type);
	return 0;
}

int untolds_load(struct untolds *u, const struct model *m, const struct untold_columns *columns,
		 size_t rows, uint64_t first, struct error *err)
{
	size_t room = u->nr + rows;
	int ret = 0;

	if (room > u->room) {
		struct untold *more = realloc(u->rows, room * sizeof(*more));

		if (!more)
			return fail(err, ENOMEM, "no memory for %zu rows of untold", room);
		u->rows = more;
		u->room = room;
	}
	for (size_t i = 0; i < rows && !ret; i++) {
		if (columns->at[i] < first)
			continue;
		if (u->nr && columns->at[i] < u->rows[u->nr - 1].at)
			return fail(err, EINVAL,
				    "untold: row %zu goes back from event %llu to %llu", u->nr,
				    (unsigned long long)u->rows[u->nr - 1].at,
				    (unsigned long long)columns->at[i]);
		ret = load_row(&u->rows[u->nr], m, columns, i, err);
		u->nr += !ret;
	}
	return ret;
}

void untolds_free(struct untolds *u)
{
	free(u->rows);
}

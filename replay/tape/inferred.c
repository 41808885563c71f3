// SPDX-License-Identifier: Apache-2.0
#include "inferred.h"

#include "model/flips.h"
#include "model/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void write_tuning(struct inferred_columns *c, size_t i, const struct inferred *row)
{
#define WRITE_FIELD(bit, column)                                                                   \
	if (row->fields & (bit)) {                                                                 \
		c->column[i] = (__typeof__(*c->column))row->column;                                \
		set_valid(c->column##_valid, i);                                                   \
	}
	WRITE_FIELD(FIELD_ALLOC_FACTOR, alloc_factor)
	WRITE_FIELD(FIELD_BELOW_HIGH, below_high)
	WRITE_FIELD(FIELD_HIGH, high)
	WRITE_FIELD(FIELD_FREE_COUNT, free_count)
	WRITE_FIELD(FIELD_FREE_FACTOR, free_factor)
	WRITE_FIELD(FIELD_RECLAIM_ACTIVE, reclaim_active)
	WRITE_FIELD(FIELD_PAGES, pages)
	WRITE_FIELD(FIELD_RAN_ON, ran_on)
#undef WRITE_FIELD
}

void inferred_write(struct output *o, const struct model *m, const struct inferred *row)
{
	struct inferred_columns *columns;
	size_t i = output_row(o, &columns);

	columns->at[i] = row->at;
	columns->ts[i] = row->ts;
	columns->cpu[i] = row->cpu;
	columns->kind[i] = row->kind;
	columns->pfn[i] = frame_pfn(m, row->frame);
	columns->page_order[i] = row->order;
	columns->migratetype[i] = row->migratetype;
	columns->pid[i] = row->pid;
	if (row->since && row->since < row->at)
		SET_VALUE(columns, since, i, row->since);
	if (row->fields)
		write_tuning(columns, i, row);
	if (row->kind == INFERRED_KIND_CUT)
		SET_VALUE(columns, behind, i, row->behind);
	if (!inferred_is_early(row->kind))
		return;
	SET_VALUE(columns, gfp_flags, i, row->gfp_flags);
	SET_VALUE(columns, event_row, i, row->event_row);
}

/* The gfp flags of a request without an event: only the ones that select the page's zone. */
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

/* Most pages that a PCP may hold or drain at a time. */
static bool is_count(uint32_t pages)
{
	return pages <= INT32_MAX / 2;
}

/* False for a value that no PCP could have. */
static bool load_tuning(struct inferred *row, const struct inferred_columns *c, size_t i,
			int nr_cpus)
{
	bool good = true;
#define READ_FIELD(bit, column, is_good)                                                           \
	if (is_valid(c->column##_valid, i)) {                                                      \
		row->column = (__typeof__(row->column))c->column[i];                               \
		row->fields |= (bit);                                                              \
		good &= (is_good);                                                                 \
	}
	READ_FIELD(FIELD_ALLOC_FACTOR, alloc_factor, c->alloc_factor[i] <= PCP_SCALE_MOST)
	READ_FIELD(FIELD_BELOW_HIGH, below_high, true)
	READ_FIELD(FIELD_HIGH, high, is_count(c->high[i]))
	READ_FIELD(FIELD_FREE_COUNT, free_count, is_count(c->free_count[i]))
	READ_FIELD(FIELD_FREE_FACTOR, free_factor, true)
	READ_FIELD(FIELD_RECLAIM_ACTIVE, reclaim_active, true)
	READ_FIELD(FIELD_PAGES, pages, is_count(c->pages[i]))
	READ_FIELD(FIELD_RAN_ON, ran_on, c->ran_on[i] < nr_cpus)
#undef READ_FIELD
	return good;
}

static int load_row(struct inferred *row, const struct model *m, const struct inferred_columns *c,
		    size_t i, struct error *err)
{
	const struct zone *zone = pfn_zone(m, c->pfn[i]);
	bool early = inferred_is_early(c->kind[i]);

	if (!zone || c->cpu[i] >= m->nr_cpus || c->page_order[i] > m->max_order ||
	    c->migratetype[i] >= NR_MIGRATETYPE || c->kind[i] >= NR_INFERRED_KIND || c->ts[i] >> 62)
		return fail(err, EINVAL, "inferred: row of event %llu: pfn %llu, order %d, CPU %d",
			    (unsigned long long)c->at[i], (unsigned long long)c->pfn[i],
			    c->page_order[i], c->cpu[i]);
	*row = (struct inferred){
		.at = c->at[i],
		.ts = c->ts[i],
		.since = VALUE_OR(c, since, i, c->at[i]),
		.event_row =
			early && is_valid(c->event_row_valid, i) ? c->event_row[i] : UINT64_MAX,
		.frame = zone->base + (uint32_t)(c->pfn[i] - zone->base_pfn),
		.pid = c->pid[i],
		.cpu = c->cpu[i],
		.kind = c->kind[i],
		.order = c->page_order[i],
		.migratetype = c->migratetype[i],
		.behind = VALUE_OR(c, behind, i, 0),
	};
	if (row->since > row->at)
		return fail(err, EINVAL, "inferred: row of event %llu: since event %llu",
			    (unsigned long long)row->at, (unsigned long long)row->since);
	if (!load_tuning(row, c, i, m->nr_cpus))
		return fail(err, EINVAL, "inferred: row of event %llu: no tuning of a per-CPU list",
			    (unsigned long long)c->at[i]);
	if (zone->end - row->frame < 1u << row->order || row->frame & ((1u << row->order) - 1))
		return fail(err, EINVAL, "inferred: pfn %llu cannot begin a block of order %d",
			    (unsigned long long)c->pfn[i], row->order);
	row->gfp_flags = early && is_valid(c->gfp_flags_valid, i)
				 ? c->gfp_flags[i]
				 : flags_for(row->migratetype, zone->type);
	return 0;
}

int inferred_load(struct inferred_rows *u, const struct model *m,
		  const struct inferred_columns *columns, size_t rows, uint64_t first,
		  struct error *err)
{
	int ret = grow(m->arrays, &u->rows, &u->room, u->nr + rows, sizeof(*u->rows), err);

	for (size_t i = 0; i < rows && !ret; i++) {
		if (columns->at[i] < first)
			continue;
		if (u->nr && columns->at[i] < u->rows[u->nr - 1].at)
			return fail(err, EINVAL,
				    "inferred: row %zu goes back from event %llu to %llu", u->nr,
				    (unsigned long long)u->rows[u->nr - 1].at,
				    (unsigned long long)columns->at[i]);
		ret = load_row(&u->rows[u->nr], m, columns, i, err);
		u->nr += !ret;
	}
	return ret;
}

/* A row's place in the order of moments. */
struct place {
	uint64_t at;
	size_t number;
};

static int compare_places(const void *one, const void *other)
{
	const struct place *a = one, *b = other;

	if (a->at != b->at)
		return a->at < b->at ? -1 : 1;
	return a->number < b->number ? -1 : a->number > b->number;
}

/* Another moment of a row. Rows of one page have windows that do not overlap. */
static uint64_t draw_moment(const struct inferred *row, uint64_t seed, uint64_t first)
{
	uint64_t since = row->since > first ? row->since : first;
	uint64_t random = mix64(mix64(seed * 0x9e3779b97f4a7c15ull + row->at) + row->frame);

	if (since >= row->at || row->at - since >= UINT32_MAX)
		return row->at;
	return since + ((random >> 32) * (row->at - since + 1) >> 32);
}

int inferred_move(struct inferred_rows *u, uint64_t seed, uint64_t first, uint64_t *moved,
		  struct error *err)
{
	struct inferred *rows = u->nr ? malloc(u->nr * sizeof(*rows)) : NULL;
	struct place *places = u->nr ? malloc(u->nr * sizeof(*places)) : NULL;
	int ret = 0;

	if (u->nr && (!rows || !places))
		ret = fail(err, ENOMEM, "no memory for %zu rows of inferred", u->nr);
	for (size_t i = 0; !ret && i < u->nr; i++) {
		places[i] = (struct place){draw_moment(&u->rows[i], seed, first), i};
		if (places[i].at == u->rows[i].at)
			continue;
		u->rows[i].at = places[i].at;
		u->rows[i].ts = 0;
		++*moved;
	}
	if (!ret && *moved) {
		qsort(places, u->nr, sizeof(*places), compare_places);
		for (size_t i = 0; i < u->nr; i++)
			rows[i] = u->rows[places[i].number];
		memcpy(u->rows, rows, u->nr * sizeof(*rows));
	}
	free(rows);
	free(places);
	return ret;
}

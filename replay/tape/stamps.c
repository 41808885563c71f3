// SPDX-License-Identifier: Apache-2.0
#include "stamps.h"

#include "model/memory.h"
#include "model/zone.h"

#include <errno.h>

/* A number of pages; 0 where the kernel has no such value. */
static int32_t pages(const uint8_t *valid, const uint32_t *column, size_t i)
{
	return is_valid(valid, i) && column[i] <= INT32_MAX ? (int32_t)column[i] : 0;
}

static struct stamp read_row(const struct stamp_columns *c, size_t i, uint16_t zone)
{
	return (struct stamp){
		.at = c->at[i],
		.zone = zone,
		.kind = c->kind[i],
		.below_high = VALUE_OR(c, below_high, i, false),
		.reclaim_active = c->reclaim_active[i],
		.count = pages(c->count_valid, c->count, i),
		.high = pages(c->high_valid, c->high, i),
		.high_min = pages(c->high_min_valid, c->high_min, i),
		.high_max = pages(c->high_max_valid, c->high_max, i),
		.batch = pages(c->batch_valid, c->batch, i),
		.free_count = VALUE_OR(c, free_count, i, 0),
		.alloc_factor = VALUE_OR(c, alloc_factor, i, 0),
		.free_factor = (uint8_t)VALUE_OR(c, free_factor, i, 0),
		.vmstat_diff = c->vm_stat_diff[i],
		.boost = pages(NULL, c->boost, i),
		.counted_free =
			c->free[i] >= 0 && c->free[i] <= INT32_MAX ? (int32_t)c->free[i] : 0,
	};
}

static int make_room(struct stamps *s, const struct model *m, size_t rows, struct error *err)
{
	size_t room = s->nr + rows, cpus = (size_t)m->nr_cpus;

	if (!s->coming) {
		s->coming = arrays_new(m->arrays, cpus, sizeof(*s->coming));
		s->last = arrays_new(m->arrays, cpus, sizeof(*s->last));
	}
	if (room > UINT32_MAX - 1)
		return fail(err, ENOMEM, "no memory for %zu stamps", room);
	return grow(m->arrays, &s->rows, &s->room, room, sizeof(*s->rows), err)
		       ?: arrays_error(m->arrays, err);
}

int stamps_load(struct stamps *s, const struct model *m, const struct stamp_columns *columns,
		size_t rows, uint64_t first, struct error *err)
{
	int ret = rows ? make_room(s, m, rows, err) : 0;

	for (size_t i = 0; i < rows && !ret; i++) {
		const struct zone *zone = zone_by_type(m, columns->node[i], columns->zone[i]);
		int cpu = columns->cpu[i];

		if (columns->at[i] < first || !zone || cpu >= m->nr_cpus)
			continue;
		if (s->nr && columns->at[i] < s->rows[s->nr - 1].at)
			return fail(err, EINVAL, "stamp: row %zu goes back from event %llu to %llu",
				    s->nr, (unsigned long long)s->rows[s->nr - 1].at,
				    (unsigned long long)columns->at[i]);
		s->rows[s->nr++] = read_row(columns, i, zone->number);
		if (s->last[cpu])
			s->rows[s->last[cpu] - 1].later = (uint32_t)s->nr;
		else
			s->coming[cpu] = (uint32_t)s->nr;
		s->last[cpu] = (uint32_t)s->nr;
	}
	return ret;
}

const struct stamp *stamp_of(const struct stamps *s, int cpu, uint64_t since, uint64_t at)
{
	const struct stamp *found = NULL;

	if (!s->nr)
		return NULL;
	for (uint32_t i = s->coming[cpu]; i && s->rows[i - 1].at <= at; i = s->rows[i - 1].later)
		if (s->rows[i - 1].at >= since)
			found = &s->rows[i - 1];
	return found;
}

const struct stamp *stamp_after(const struct stamps *s, int cpu, uint64_t at)
{
	uint32_t i = s->nr ? s->coming[cpu] : 0;

	while (i && s->rows[i - 1].at <= at)
		i = s->rows[i - 1].later;
	return i ? &s->rows[i - 1] : NULL;
}

void stamps_ran(struct stamps *s, int cpu, uint64_t at)
{
	uint32_t *i = &s->coming[cpu];

	while (*i && s->rows[*i - 1].at <= at)
		*i = s->rows[*i - 1].later;
}

int list_heads_load(struct list_heads *h, const struct model *m,
		    const struct list_head_columns *columns, size_t rows, uint64_t first,
		    struct error *err)
{
	for (size_t i = 0; i < rows; i++) {
		if (columns->at[i] < first)
			continue;
		if (grow(m->arrays, &h->rows, &h->room, h->nr + 1, sizeof(*h->rows), err))
			return -ENOMEM;
		h->rows[h->nr++] = (struct list_head_row){
			.at = columns->at[i],
			.frame = pfn_frame(m, columns->pfn[i]),
			.pid = columns->pid[i],
			.order = columns->page_order[i],
		};
	}
	return 0;
}

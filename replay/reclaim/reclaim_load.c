// SPDX-License-Identifier: Apache-2.0
/* Loads the rows of a tape for a run with feedback. */
#include "reclaim_run.h"

#include "model/memory.h"

#include <errno.h>
#include <string.h>

/* Sums over a run fit in 64 bits. */
#define SERVICE_NS_MOST 3600000000000ull /* 1 h */

static int load_service(struct reclaim_run *run, const struct service_columns *c, size_t rows,
			struct error *err)
{
	struct service *s = &run->service;

	for (size_t i = 0; i < rows; i++) {
		if (c->what[i] >= NR_SERVICE_WHAT || c->ns[i] > SERVICE_NS_MOST)
			return fail(err, EINVAL, "service: row %zu is invalid", i);
		if (s->nr == SERVICE_ROWS)
			return fail(err, E2BIG, "service: more than %d rows of one kind",
				    SERVICE_ROWS);
		s->wake_ns[s->nr++] = c->ns[i];
	}
	return 0;
}

/* Calls without gfp flags come from boosts; the model makes its own. */
static bool is_slow_entry(const struct model *m, const struct reclaim_columns *c, size_t i)
{
	bool calls = c->kind[i] == RECLAIM_KIND_WAKEUP_KSWAPD;

	if ((!calls && c->kind[i] != RECLAIM_KIND_DIRECT_RECLAIM_BEGIN) ||
	    c->cpu[i] >= m->nr_cpus || !is_valid(c->page_order_valid, i) || c->page_order[i] < 0 ||
	    c->page_order[i] > m->max_order || !is_valid(c->gfp_flags_valid, i))
		return false;
	return !calls || (c->gfp_flags[i] && is_valid(c->node_valid, i) && c->node[i] >= 0 &&
			  is_valid(c->zone_valid, i) && c->zone[i] < NR_ZONE);
}

static int load_entries(struct reclaim_run *run, const struct reclaim_columns *c, size_t rows,
			struct error *err)
{
	for (size_t i = 0; i < rows; i++) {
		bool calls = c->kind[i] == RECLAIM_KIND_WAKEUP_KSWAPD;

		if (c->at[i] < run->first || !is_slow_entry(run->model, c, i))
			continue;
		if (grow(run->model->arrays, &run->entries, &run->entries_room, run->nr_entries + 1,
			 sizeof(*run->entries), err))
			return -ENOMEM;
		run->entries[run->nr_entries++] = (struct slow_entry){
			.at = c->at[i],
			.ts = c->ts[i],
			.gfp_flags = c->gfp_flags[i],
			.pid = c->pid[i],
			.cpu = c->cpu[i],
			.node = calls ? c->node[i] : (int16_t)-1,
			.order = (uint8_t)c->page_order[i],
			.class_zone = calls ? c->zone[i] : 0,
		};
	}
	return 0;
}

const struct first_step *first_step(const struct first_steps *steps, int node)
{
	for (size_t i = 0; i < steps->nr; i++)
		if (steps->rows[i].node == node)
			return &steps->rows[i];
	return NULL;
}

/* Add a step, unless its node has an earlier one. */
static int add_step(struct arrays *arrays, struct first_steps *steps, struct first_step step,
		    struct error *err)
{
	if (first_step(steps, step.node))
		return 0;
	if (grow(arrays, &steps->rows, &steps->room, steps->nr + 1, sizeof(step), err))
		return -ENOMEM;
	steps->rows[steps->nr++] = step;
	return 0;
}

static int load_first_steps(struct reclaim_run *run, const struct reclaim_columns *c, size_t rows,
			    struct error *err)
{
	int ret = 0;

	for (size_t i = 0; i < rows && !ret; i++) {
		bool sleeps = c->kind[i] == RECLAIM_KIND_KSWAPD_SLEEP;

		if (c->at[i] >= run->first && is_valid(c->node_valid, i) &&
		    (sleeps || c->kind[i] == RECLAIM_KIND_KSWAPD_WAKE))
			ret = add_step(run->model->arrays, &run->first_steps,
				       (struct first_step){c->node[i], sleeps, c->ts[i]}, err);
	}
	return ret;
}

/*
 * The first step of each kcompactd, where a run without a wakeup is one of its timer; and the
 * checks for work. One that is out of order is left out.
 */
static int load_checks(struct reclaim_run *run, const struct compaction_columns *c, size_t rows,
		       struct error *err)
{
	struct recorded_checks *checks = &run->checks;

	run->compaction_recorded |= rows > 0;
	for (size_t i = 0; i < rows; i++) {
		bool woken = c->kind[i] == COMPACTION_KIND_WAKEUP_KCOMPACTD;
		bool looks = c->kind[i] == COMPACTION_KIND_KCOMPACTD_SLEEP;
		struct first_step step = {c->node[i], false, woken ? UINT64_MAX : c->ts[i]};

		if (!is_valid(c->node_valid, i) ||
		    (!woken && !looks && c->kind[i] != COMPACTION_KIND_KCOMPACTD_WAKE))
			continue;
		if (add_step(run->model->arrays, &run->first_checks, step, err))
			return -ENOMEM;
		if (!looks || (checks->nr && c->ts[i] < checks->rows[checks->nr - 1].ts))
			continue;
		if (grow(run->model->arrays, &checks->rows, &checks->room, checks->nr + 1,
			 sizeof(*checks->rows), err))
			return -ENOMEM;
		checks->rows[checks->nr++] = (struct recorded_check){c->ts[i], c->node[i]};
	}
	return 0;
}

static const struct table *const tables[] = {
	&reclaim_table, &reclaimed_table, &compaction_table,
	&service_table, &scan_table,      &reclaimable_table,
};

static const struct table *find_table(const char *name)
{
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		if (!strcmp(tables[i]->name, name))
			return tables[i];
	return NULL;
}

bool reclaim_run_reads(const char *table)
{
	return find_table(table) != NULL;
}

int reclaim_run_load(struct reclaim_run *run, const char *name, const struct ArrowSchema *schema,
		     const struct ArrowArray *array, struct error *err)
{
	union table_columns columns;
	const struct table *table = find_table(name);
	size_t nr;
	int ret = table_read(table, schema, array, &columns, &nr, err);

	if (ret)
		return ret;
	if (table == &reclaim_table) {
		ret = load_first_steps(run, &columns.reclaim, nr, err);
		return ret ? ret : load_entries(run, &columns.reclaim, nr, err);
	}
	if (table == &reclaimed_table)
		return reclaim_supply_load(&run->supply, run->model, &columns.reclaimed, nr,
					   run->first, err);
	if (table == &scan_table)
		return scan_pace_load(&run->pace, run->model->arrays, &columns.scan, nr, err);
	if (table == &reclaimable_table)
		return ages_load(&run->supply.ages, run->model->arrays, &columns.reclaimable, nr,
				 err);
	if (table == &compaction_table)
		return load_checks(run, &columns.compaction, nr, err);
	return load_service(run, &columns.service, nr, err);
}

// SPDX-License-Identifier: Apache-2.0
#include "start.h"

#include "pcp.h"
#include "policy_stack.h"
#include "snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The zones are known: build the model. */
static int build(struct start *s, struct error *err)
{
	struct policy *layout = s->policies->owner.layout;
	struct policy *marks = s->policies->owner.watermarks;
	int ret;

	if (s->model)
		return 0;
	if (!s->nr_specs)
		return fail(err, ENODATA,
			    "no rows of zone: the tape has no snapshot to start from");
	s->new_marks = marks->ops->watermarks(marks, s->specs, s->nr_specs);
	ret = layout->ops->layout(layout, &s->machine, s->specs, &s->nr_specs, UINT8_MAX, err);
	if (ret)
		return ret;
	ret = model_new(&s->model, &s->kernel, &s->machine, s->specs, s->nr_specs, err);
	if (ret)
		return ret;
	policy_stack_join(s->policies, s->model);
	ret = asides_new(&s->asides, s->model, err);
	return ret ? ret : compactions_new(&s->compactions, s->model, err);
}

/* Which loader a table has, and the columns it reads. */
static int load_rows(struct start *s, const struct table *table, const struct ArrowSchema *schema,
		     const struct ArrowArray *array, struct error *err)
{
	union {
		struct zone_columns zone;
		struct pcp_columns pcp;
		struct pageblock_columns pageblock;
		struct free_block_columns free_block;
		struct pcp_page_columns pcp_page;
		struct block_guess_columns block_guess;
		struct reclaim_columns reclaim;
		struct compaction_columns compaction;
		struct untold_columns untold;
		struct preference_columns preference;
		struct reclaimed_columns reclaimed;
		struct service_columns service;
	} columns;
	size_t nr;
	int ret;

	ret = table_read(table, schema, array, &columns, &nr, err);
	if (ret)
		return ret;
	if (table == &zone_table) {
		if (s->model)
			return fail(err, EINVAL, "rows of zone must come before all others");
		return snapshot_zones(s->specs, &s->nr_specs, UINT8_MAX, &columns.zone, nr, err);
	}
	ret = build(s, err);
	if (ret)
		return ret;
	if (table == &pcp_table)
		return snapshot_load_pcp(s->model, s->recorded, &columns.pcp, nr, err);
	if (table == &pageblock_table)
		return snapshot_load_pageblock(s->model, &columns.pageblock, nr, err);
	if (table == &reclaim_table) {
		ret = asides_load(&s->asides, s->model, &columns.reclaim, nr, s->first, err);
		return ret ? ret
			   : feedback_load_probes(&s->feedback, s->model, &columns.reclaim, nr,
						  s->first, err);
	}
	if (table == &reclaimed_table)
		return reclaim_load(&s->feedback.reclaim, s->model, &columns.reclaimed, nr,
				    s->first, err);
	if (table == &service_table)
		return feedback_load_service(&s->feedback, &columns.service, nr, err);
	if (table == &compaction_table) {
		ret = compactions_load(&s->compactions, &columns.compaction, nr, s->first, err);
		return ret ? ret : feedback_load_looks(&s->feedback, &columns.compaction, nr, err);
	}
	if (table == &untold_table)
		return untolds_load(&s->untolds, s->model, &columns.untold, nr, s->first, err);
	if (table == &preference_table)
		return prefer_load(&s->landed, &columns.preference, nr, err);
	if (table == &pcp_page_table)
		return snapshot_load_pcp_page(s->model, &columns.pcp_page, nr, err);
	s->listed = true;
	if (table == &free_block_table)
		return snapshot_load_free_block(s->model, &columns.free_block, nr, err);
	return snapshot_load_block_guess(s->model, &columns.block_guess, nr, err);
}

int start_load(struct start *s, const char *name, const struct ArrowSchema *schema,
	       const struct ArrowArray *array, struct error *err)
{
	static const struct table *const tables[] = {
		&zone_table,     &pcp_table,         &pageblock_table, &free_block_table,
		&pcp_page_table, &block_guess_table, &reclaim_table,   &compaction_table,
		&untold_table,   &reclaimed_table,   &service_table,   &preference_table,
	};

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		if (!strcmp(tables[i]->name, name))
			return load_rows(s, tables[i], schema, array, err);
	return 0;
}

/*
 * Who sets watermarks sizes the PCPs as well (zone_pcp_update, 5.14 to 6.18; before, their
 * size is not by the watermark). An auto-tuned high stays where it is, within its new limits.
 */
static void resize_pcps(struct model *m, int high_fraction)
{
	if (m->kernel->pcp_tuning == PCP_FIXED)
		return;
	for (int i = 0; i < m->nr_zones * m->nr_cpus; i++) {
		struct pcp *pcp = &m->pcps[i];
		int high = pcp->high;

		pcp_size(m, &m->zones[pcp->zone], pcp, high_fraction);
		if (m->kernel->pcp_tuning != PCP_AUTO)
			continue;
		if (high > pcp->high_max)
			pcp->high = pcp->high_max;
		else if (high > pcp->high_min)
			pcp->high = high;
	}
}

int start_complete(struct start *s, struct error *err)
{
	int ret = build(s, err);

	if (ret)
		return ret;
	if (!s->listed)
		return fail(err, ENODATA,
			    "no rows of free_block or block_guess: the tape does not "
			    "say which pages were free at its start");
	for (int i = 0; i < s->model->nr_zones; i++) {
		struct zone *zone = &s->model->zones[i];

		/* Without kswapd's passes nothing would ever take these back. */
		if (!s->model->boost_acts || s->kernel.boost == BOOST_NONE)
			zone->boost = 0;
		zone->reclaim_active &= s->model->boost_acts;
	}
	s->model->landed = s->landed;
	snapshot_complete(s->model);
	if (s->new_marks)
		resize_pcps(s->model, s->machine.pcp_high_fraction);
	policy_stack_limit_pcps(s->policies, s->model);
	return 0;
}

void start_free(struct start *s)
{
	feedback_free(&s->feedback);
	model_free(s->model);
	asides_free(&s->asides);
	compactions_free(&s->compactions);
	untolds_free(&s->untolds);
	free(s->landed);
}

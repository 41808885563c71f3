// SPDX-License-Identifier: Apache-2.0
#include "load.h"

#include "model/memory.h"
#include "model/model_new.h"
#include "model/pcp.h"
#include "model/policy_stack.h"
#include "snapshot.h"

#include <errno.h>
#include <string.h>

int load_model(struct load *s, struct error *err)
{
	struct policy *layout = s->policies->owner.layout;
	struct policy *marks = s->policies->owner.watermarks;
	int ret;

	if (s->model)
		return 0;
	if (!s->nr_specs)
		return fail(err, ENODATA,
			    "no rows of zone: the tape has no snapshot to start from");
	ret = machine_check(&s->machine, s->specs, s->nr_specs, err);
	if (ret)
		return ret;
	new_limits_start(&s->new_limits, s->specs, s->nr_specs);
	s->new_marks = marks->ops->watermarks(marks, &s->machine, s->specs, s->nr_specs);
	ret = layout->ops->layout(layout, &s->machine, s->specs, &s->nr_specs, UINT8_MAX, err);
	if (ret)
		return ret;
	s->record = (struct record_facts){
		.hopeless_nodes = s->machine.hopeless_nodes,
		.defrag_mode = s->machine.recorded_defrag,
		.zone_reclaim_mode = s->machine.recorded_zone_reclaim,
		.zone_events = s->machine.zone_events,
		.fallback_first = s->recorded->fallback <= FALLBACK_MOVE,
	};
	ret = model_new(&s->model, &s->kernel, &s->machine, s->specs, s->nr_specs, err);
	if (ret)
		return ret;
	s->model->record = &s->record;
	policy_stack_join(s->policies, s->model);
	recorded_compactions_new(&s->recorded_compactions, s->model);
	if (reclaim_events_new(&s->reclaim_events, s->model, err))
		return -ENOMEM;
	return arrays_error(s->model->arrays, err);
}

/* The loader of each table, and its columns. */
static int load_table(struct load *s, const struct table *table, const struct ArrowSchema *schema,
		      const struct ArrowArray *array, struct error *err)
{
	union table_columns columns;
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
	ret = load_model(s, err);
	if (ret)
		return ret;
	if (table == &pcp_table)
		return snapshot_load_pcp(s->model, s->recorded, &columns.pcp, nr, err);
	if (table == &pageblock_table)
		return snapshot_load_pageblock(s->model, &columns.pageblock, nr, err);
	if (table == &reclaim_table)
		return reclaim_events_load(&s->reclaim_events, s->model, &columns.reclaim, nr,
					   s->first, err);
	if (table == &compaction_table)
		return recorded_compactions_load(&s->recorded_compactions, &columns.compaction, nr,
						 s->first, err);
	if (table == &inferred_table)
		return inferred_load(&s->inferred_rows, s->model, &columns.inferred, nr, s->first,
				     err);
	if (table == &preference_table)
		return node_preference_load(&s->landed, s->model->arrays, &columns.preference, nr,
					    err);
	if (table == &new_limit_table)
		return new_limits_load(&s->new_limits, s->model->arrays, &columns.new_limit, nr,
				       err);
	if (table == &stamp_table)
		return stamps_load(&s->stamps, s->model, &columns.stamp, nr, s->first, err);
	if (table == &list_head_table)
		return list_heads_load(&s->list_heads, s->model, &columns.list_head, nr, s->first,
				       err);
	if (table == &pcp_page_table)
		return snapshot_load_pcp_page(s->model, &columns.pcp_page, nr, err);
	s->listed = true;
	if (table == &free_block_table)
		return snapshot_load_free_block(s->model, &columns.free_block, nr, err);
	return snapshot_load_block_guess(s->model, &columns.block_guess, nr, err);
}

int load_rows(struct load *s, const char *name, const struct ArrowSchema *schema,
	      const struct ArrowArray *array, struct error *err)
{
	static const struct table *const tables[] = {
		&zone_table,      &pcp_table,         &pageblock_table, &free_block_table,
		&pcp_page_table,  &block_guess_table, &reclaim_table,   &compaction_table,
		&inferred_table,  &preference_table,  &new_limit_table, &stamp_table,
		&list_head_table,
	};

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		if (!strcmp(tables[i]->name, name))
			return load_table(s, tables[i], schema, array, err);
	return 0;
}

/*
 * New watermarks size the PCPs as well (zone_pcp_update, 5.14 to 6.18; before 5.14 their size does
 * not depend on watermarks). An auto-tuned high stays, within its new limits.
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

int load_complete(struct load *s, struct error *err)
{
	int ret = load_model(s, err);

	if (ret)
		return ret;
	if (!s->listed)
		return fail(err, ENODATA,
			    "no rows of free_block or block_guess: the tape does not "
			    "say which pages were free at its start");
	s->model->record->boost_acts |= s->model->record->hopeless_nodes != 0;
	for (int i = 0; i < s->model->nr_zones; i++) {
		struct zone *zone = &s->model->zones[i];

		/* Only passes of kswapd remove a boost, and a hopeless one makes none. */
		if (!s->model->record->boost_acts || s->kernel.boost == BOOST_NONE)
			zone->boost = 0;
		zone->reclaim_active &= s->model->record->boost_acts;
		if (s->model->record->zone_events)
			zone->pcp_unseen = 0;
	}
	s->model->record->landed = s->landed;
	snapshot_complete(s->model);
	new_limits_check_pcps(s);
	if (s->new_marks)
		resize_pcps(s->model, s->machine.pcp_high_fraction);
	policy_stack_limit_pcps(s->policies, s->model);
	return 0;
}

void load_free(struct load *s)
{
	model_free(s->model);
}

// SPDX-License-Identifier: Apache-2.0
#include "new_limits.h"

#include "load.h"
#include "model/memory.h"
#include "model/pcp.h"
#include "model/policy_stack.h"
#include "model/watermark.h"

#include <errno.h>
#include <string.h>

#define VALUE_MOST (1ll << 52) /* pages of a 64-bit physical address space */

void new_limits_start(struct new_limits *limits, const struct zone_spec *zones, int nr)
{
	memcpy(limits->zones, zones, (size_t)nr * sizeof(*zones));
	limits->nr_zones = nr;
}

/* The number of a zone in limits->zones, or -1. */
static int find_zone(const struct new_limits *limits, int node, int type)
{
	for (int i = 0; i < limits->nr_zones; i++)
		if (limits->zones[i].node == node && limits->zones[i].type == type)
			return i;
	return -1;
}

static int check_row(const struct new_limits *limits, const struct new_limit *row,
		     struct error *err)
{
	int64_t most = row->what == NEW_LIMIT_WHAT_HIGH_FRACTION ? INT32_MAX : VALUE_MOST;

	if (row->what >= NR_NEW_LIMIT_WHAT || row->upper_zone >= NR_ZONE)
		return fail(err, EINVAL, "new_limit: row %zu has kind %d and upper zone %d",
			    limits->nr, row->what, row->upper_zone);
	if (row->value < 0 || row->value > most)
		return fail(err, EINVAL, "new_limit: row %zu has value %lld", limits->nr,
			    (long long)row->value);
	if (limits->nr && row->at < limits->rows[limits->nr - 1].at)
		return fail(err, EINVAL, "new_limit: row %zu goes back from event %llu to %llu",
			    limits->nr, (unsigned long long)limits->rows[limits->nr - 1].at,
			    (unsigned long long)row->at);
	return 0;
}

int new_limits_load(struct new_limits *limits, struct arrays *arrays,
		    const struct new_limit_columns *columns, size_t rows, struct error *err)
{
	int ret = grow(arrays, &limits->rows, &limits->room, limits->nr + rows,
		       sizeof(*limits->rows), err);

	for (size_t i = 0; i < rows && !ret; i++) {
		int zone = find_zone(limits, columns->node[i], columns->zone[i]);
		struct new_limit *row = &limits->rows[limits->nr];

		if (zone < 0 && columns->what[i] != NEW_LIMIT_WHAT_HIGH_FRACTION)
			continue;
		*row = (struct new_limit){
			.at = columns->at[i],
			.value = columns->value[i],
			.what = columns->what[i],
			.zone = (uint8_t)(zone < 0 ? 0 : zone),
			.upper_zone = VALUE_OR(columns, upper_zone, i, 0),
		};
		ret = check_row(limits, row, err);
		limits->nr += !ret;
	}
	return ret;
}

void new_limits_check_pcps(struct load *s)
{
	const struct model *m = s->model;
	bool by_rule = m->kernel->pcp_tuning != PCP_FIXED;

	for (int i = 0; i < m->nr_zones * m->nr_cpus && by_rule; i++) {
		const struct pcp *pcp = &m->pcps[i];
		struct pcp sized = *pcp;

		pcp_size(m, &m->zones[pcp->zone], &sized, s->machine.pcp_high_fraction);
		if (m->kernel->pcp_tuning == PCP_AUTO)
			sized.high = pcp->high;
		by_rule = pcp_limits_same(pcp, &sized);
	}
	s->new_limits.pcps_by_rule = by_rule;
}

/* A recorded change, without the policies. */
static void record(struct load *s, const struct new_limit *row)
{
	struct zone_spec *zone = &s->new_limits.zones[row->zone];

	switch (row->what) {
	case NEW_LIMIT_WHAT_MANAGED:
		zone->managed = (uint64_t)row->value;
		break;
	case NEW_LIMIT_WHAT_WMARK_MIN:
		zone->wmark[WMARK_MIN] = row->value;
		break;
	case NEW_LIMIT_WHAT_WMARK_LOW:
		zone->wmark[WMARK_LOW] = row->value;
		break;
	case NEW_LIMIT_WHAT_WMARK_HIGH:
		zone->wmark[WMARK_HIGH] = row->value;
		break;
	case NEW_LIMIT_WHAT_WMARK_PROMO:
		zone->wmark_promo = (uint64_t)row->value;
		break;
	case NEW_LIMIT_WHAT_LOWMEM_RESERVE:
		zone->lowmem_reserve[row->upper_zone] = row->value;
		break;
	case NEW_LIMIT_WHAT_HIGH_FRACTION:
		s->machine.pcp_high_fraction = (int)row->value;
		break;
	}
}

/* pageset_update, 6.7 to 6.18: an auto-tuned high stays until its next use limits it. */
static void size_pcps(struct load *s, const struct zone *zone)
{
	struct model *m = s->model;

	for (int cpu = 0; cpu < m->nr_cpus; cpu++) {
		struct pcp *pcp = zone_pcp(m, zone, cpu);
		int high = pcp->high;

		if (s->new_marks || s->new_limits.pcps_by_rule)
			pcp_size(m, zone, pcp, s->machine.pcp_high_fraction);
		policy_stack_limit_pcp(s->policies, m, pcp);
		if (m->kernel->pcp_tuning == PCP_AUTO)
			pcp->high = high;
	}
}

static void set_zone(struct load *s, struct zone *zone, const struct zone_spec *spec)
{
	bool marks = memcmp(zone->wmark, spec->wmark, sizeof(zone->wmark)) != 0;

	memcpy(zone->lowmem_reserve, spec->lowmem_reserve, sizeof(zone->lowmem_reserve));
	memcpy(zone->wmark, spec->wmark, sizeof(zone->wmark));
	zone->wmark_promo = spec->wmark_promo;
	zone->managed = spec->managed;
	/* __setup_per_zone_wmarks, 5.0 to 6.18 */
	if (marks)
		unboost_zone(s->model, zone);
	if (s->model->kernel->pcp_tuning != PCP_FIXED)
		size_pcps(s, zone);
}

void new_limits_set(struct load *s, uint64_t at)
{
	struct policy *marks = s->policies->owner.watermarks;
	struct new_limits *limits = &s->new_limits;
	struct model *m = s->model;

	while (limits->next < limits->nr && limits->rows[limits->next].at <= at)
		record(s, &limits->rows[limits->next++]);
	if (m->nr_zones != limits->nr_zones || m->node_parts > 1 || m->zone_parts > 1)
		return;
	memcpy(s->specs, limits->zones, (size_t)limits->nr_zones * sizeof(*s->specs));
	marks->ops->watermarks(marks, &s->machine, s->specs, limits->nr_zones);
	for (int i = 0; i < m->nr_zones; i++)
		set_zone(s, &m->zones[i], &s->specs[i]);
}

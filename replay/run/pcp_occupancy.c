// SPDX-License-Identifier: Apache-2.0
#include "pcp_occupancy.h"

#include "model/memory.h"

static const struct level unseen = {.least = UINT32_MAX};

int pcp_occupancies_new(struct pcp_occupancies *l, const struct model *m, struct error *err)
{
	size_t nr = (size_t)(m->nr_zones * m->nr_cpus);

	*l = (struct pcp_occupancies){.of = arrays_new(m->arrays, nr, sizeof(*l->of))};
	if (!l->of)
		return arrays_error(m->arrays, err);
	for (size_t i = 0; i < nr; i++)
		l->of[i] = unseen;
	return 0;
}

void pcp_occupancies_start(struct pcp_occupancies *l, uint64_t ts)
{
	l->begin = l->last = ts;
}

void pcp_occupancies_look(struct pcp_occupancies *l, const struct model *m, uint64_t ts)
{
	for (int i = 0; i < m->nr_zones * m->nr_cpus; i++) {
		uint32_t count = (uint32_t)m->pcps[i].count;
		struct level *level = &l->of[i];

		level->page_ns += count * (ts - l->last);
		level->least = count < level->least ? count : level->least;
		level->most = count > level->most ? count : level->most;
	}
	l->last = ts;
}

static void write_occupancy(const struct pcp_occupancies *l, const struct model *m,
			    const struct pcp *pcp, struct output *output)
{
	const struct level *level = &l->of[pcp - m->pcps];
	const struct zone *zone = &m->zones[pcp->zone];
	struct pcp_occupancy_columns *columns;
	size_t i = output_row(output, &columns);

	columns->ts[i] = l->begin;
	columns->duration_ns[i] = l->last - l->begin;
	columns->cpu[i] = pcp->cpu;
	columns->node[i] = zone->node;
	columns->zone[i] = zone->type;
	columns->page_us[i] = level->page_ns / 1000;
	columns->least[i] = level->least;
	columns->most[i] = level->most;
	columns->high[i] = (uint32_t)pcp->high;
}

void pcp_occupancies_write(struct pcp_occupancies *l, const struct model *m, uint64_t ts,
			   struct output *output)
{
	pcp_occupancies_look(l, m, ts);
	for (int i = 0; i < m->nr_zones * m->nr_cpus; i++) {
		write_occupancy(l, m, &m->pcps[i], output);
		l->of[i] = unseen;
	}
	l->begin = ts;
}

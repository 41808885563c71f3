// SPDX-License-Identifier: Apache-2.0
#include "state_trace.h"

#include "model/buddy.h"
#include "model/pcp.h"

#include <errno.h>
#include <stdlib.h>

static size_t most_lists(const struct model *m)
{
	size_t free_lists = (size_t)(m->max_order + 1) * NR_MIGRATETYPE;

	return (size_t)m->nr_zones * (free_lists + (size_t)(m->nr_cpus * m->nr_pcp_lists));
}

int state_trace_new(struct state_trace **out, const struct state_trace_config *config,
		    struct error *err)
{
	struct state_trace *w;

	*out = NULL;
	if (config->start > config->first || config->first > config->ran ||
	    config->ran > config->at)
		return fail(err, EINVAL, "rows %llu, %llu, %llu and %llu are not in order",
			    (unsigned long long)config->start, (unsigned long long)config->first,
			    (unsigned long long)config->ran, (unsigned long long)config->at);
	w = calloc(1, sizeof(*w));
	if (!w)
		return fail(err, ENOMEM, "no memory for a trace of states");
	w->config = *config;
	*out = w;
	return 0;
}

static int start(void *self, const struct model *m, struct error *err)
{
	struct state_trace *w = self;
	const struct state_trace_config *config = &w->config;
	const struct zone *zone = pfn_zone(m, config->pfns[0]);

	if (!zone)
		return fail(err, EINVAL, "page %llu is in no zone",
			    (unsigned long long)config->pfns[0]);
	if (config->cpu >= m->nr_cpus || config->order > m->max_order ||
	    config->migratetype >= NR_MIGRATETYPE)
		return fail(err, EINVAL, "a request of CPU %u, order %u, migratetype %u",
			    config->cpu, config->order, config->migratetype);
	w->scene = (struct scene){zone, config->cpu, config->order, config->migratetype};
	w->nr_digests = config->at - config->start + 1;
	w->digests = calloc(w->nr_digests, sizeof(*w->digests));
	w->lists = calloc(most_lists(m), sizeof(*w->lists));
	if (!w->digests || !w->lists)
		return fail(err, ENOMEM, "no memory for the digests of %zu rows", w->nr_digests);
	return 0;
}

void state_trace_free(struct state_trace *w)
{
	if (!w)
		return;
	free(w->digests);
	free(w->lists);
	free(w);
}

static uint32_t mix(uint32_t digest, uint32_t value)
{
	digest = (digest ^ value) * 0x9e3779b1u;
	return digest ^ digest >> 15;
}

static uint32_t mix_list(uint32_t digest, const struct frame *frames, list_nr list)
{
	return mix(mix(mix(digest, list), frames[list].next), frames[list].prev);
}

static uint32_t digest_free_lists(const struct model *m)
{
	uint32_t digest = 0;

	for (int i = 0; i < m->nr_zones; i++)
		for (int order = 0; order <= m->max_order; order++)
			for (int type = 0; type < NR_MIGRATETYPE; type++) {
				uint32_t nr = m->zones[i].nr_free[order][type];

				if (nr)
					digest = mix_list(mix(digest, nr), m->frames,
							  free_list(&m->zones[i], order, type));
			}
	return digest;
}

static uint32_t digest_pcp_lists(const struct model *m)
{
	uint32_t digest = 0;

	for (int i = 0; i < m->nr_zones * m->nr_cpus; i++) {
		const struct pcp *pcp = &m->pcps[i];

		if (!pcp->count)
			continue;
		digest = mix(mix(digest, (uint32_t)i), (uint32_t)pcp->count);
		for (int list = 0; list < m->nr_pcp_lists; list++)
			digest = mix_list(digest, m->frames, pcp->heads + (uint32_t)list);
	}
	return digest;
}

static uint32_t digest_tuning(const struct model *m)
{
	uint32_t digest = 0;

	for (int i = 0; i < m->nr_zones * m->nr_cpus; i++) {
		const struct pcp *pcp = &m->pcps[i];

		digest = mix(mix(digest, (uint32_t)pcp->high), pcp->alloc_factor);
		digest = mix(mix(digest, (uint32_t)pcp->free_count), pcp->free_factor);
	}
	return digest;
}

static uint32_t digest_marks(const struct model *m)
{
	uint32_t digest = 0;

	for (int i = 0; i < m->nr_zones; i++) {
		const struct zone *zone = &m->zones[i];

		digest = mix(digest, (uint32_t)zone->below_high << 1 | zone->reclaim_active);
		digest = mix(digest, (uint32_t)zone->boost);
	}
	return digest;
}

static void look_at_list(struct state_trace *w, const struct model *m, list_nr list,
			 struct list_look look)
{
	const struct frame *frames = m->frames;

	for (frame_nr entry = frames[list].next; entry != list; entry = frames[entry].next) {
		if (look.nr < LOOK_ENTRIES)
			look.pfns[look.nr] = frame_pfn(m, entry);
		look.nr++;
	}
	for (uint32_t i = look.nr; i < LOOK_ENTRIES; i++)
		look.pfns[i] = UINT64_MAX;
	if (look.nr)
		w->lists[w->nr_lists++] = look;
}

static void look_at_lists(struct state_trace *w, const struct model *m)
{
	if (w->nr_lists)
		return;
	for (int i = 0; i < m->nr_zones; i++) {
		const struct zone *zone = &m->zones[i];
		struct list_look look = {.node = zone->node, .cpu = NO_CPU, .zone = zone->type};

		for (int order = 0; order <= m->max_order; order++)
			for (int type = 0; type < NR_MIGRATETYPE; type++) {
				look.order = (uint8_t)order;
				look.migratetype = (uint8_t)type;
				look_at_list(w, m, free_list(zone, order, type), look);
			}
	}
	for (int i = 0; i < m->nr_zones * m->nr_cpus; i++) {
		const struct pcp *pcp = &m->pcps[i];
		const struct zone *zone = &m->zones[pcp->zone];
		struct list_look look = {.node = zone->node, .cpu = pcp->cpu, .zone = zone->type};

		for (int list = 0; list < m->nr_pcp_lists; list++) {
			int order, type;

			pcp_list_of(m, list, &order, &type);
			look.order = (uint8_t)order;
			look.migratetype = (uint8_t)type;
			look_at_list(w, m, pcp->heads + (uint32_t)list, look);
		}
	}
}

static uint32_t digest_counts(const struct model *m)
{
	uint32_t digest = 0;

	for (int i = 0; i < m->nr_zones; i++)
		digest = mix(mix(digest, (uint32_t)m->zones[i].vmstat_diff),
			     (uint32_t)m->zones[i].cma_diff);
	for (int i = 0; i < m->nr_zones * m->nr_cpus; i++)
		digest = mix(mix(digest, (uint32_t)m->pcps[i].vmstat_diff),
			     (uint32_t)m->pcps[i].cma_diff);
	return digest;
}

/* Where a page is, in words. */
static void print_page(struct explanation *explanation, const struct model *m, uint64_t pfn)
{
	const struct zone *zone = pfn == UINT64_MAX ? NULL : pfn_zone(m, pfn);
	const struct frame *f;
	frame_nr head;

	if (!zone)
		return;
	head = block_head(m, zone->base + (uint32_t)(pfn - zone->base_pfn));
	f = &m->frames[head];
	explain_print(explanation, "  page %llu: ", (unsigned long long)pfn);
	if (f->state == FRAME_FREE)
		explain_print(explanation, "free, in a block of order %d, %.*s\n", f->order,
			      LABEL(&migratetype_labels, f->list));
	else if (f->state == FRAME_PCP)
		explain_print(explanation, "on the list of CPU %u, order %d\n",
			      m->pcps[f->list].cpu, f->order);
	else
		explain_print(explanation, "in use\n");
}

static void print_scene(const struct state_trace *w, struct explanation *explanation,
			const struct model *m)
{
	explain_print_state(explanation, m, &w->scene);
	print_page(explanation, m, w->config.pfns[0]);
	print_page(explanation, m, w->config.pfns[1]);
}

static void print_after(struct state_trace *w, const struct model *m)
{
	if (!w->printed_after)
		print_scene(w, &w->after, m);
	w->printed_after = true;
}

static void before(void *self, const struct model *m, uint64_t at, bool request)
{
	struct state_trace *w = self;

	if (at >= w->config.first && !w->printed_before) {
		print_scene(w, &w->before, m);
		w->printed_before = true;
	}
	if (at > w->config.ran)
		print_after(w, m);
	if (at >= w->config.lists)
		look_at_lists(w, m);
	if (request && at >= w->config.start && at <= w->config.at) {
		uint32_t *digests = w->digests[at - w->config.start];

		/* Never 0, which stands for no request. */
		digests[PART_FREE_LISTS] = digest_free_lists(m) | 1;
		digests[PART_PCP_LISTS] = digest_pcp_lists(m) | 1;
		digests[PART_TUNING] = digest_tuning(m) | 1;
		digests[PART_MARKS] = digest_marks(m) | 1;
		digests[PART_COUNTS] = digest_counts(m) | 1;
	}
}

static void end(void *self, const struct model *m)
{
	struct state_trace *w = self;

	print_after(w, m);
	if (w->config.lists != UINT64_MAX)
		look_at_lists(w, m);
}

struct run_observer state_trace_observer(struct state_trace *w)
{
	return (struct run_observer){
		.self = w,
		.stops = {w->config.first, w->config.ran + 1},
		.start = start,
		.before = before,
		.end = end,
	};
}

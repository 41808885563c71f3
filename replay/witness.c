// SPDX-License-Identifier: Apache-2.0
#include "witness.h"

#include "buddy.h"
#include "pcp.h"

#include <errno.h>
#include <stdlib.h>

static size_t most_lists(const struct model *m)
{
	size_t free_lists = (size_t)(m->max_order + 1) * NR_MIGRATETYPE;

	return (size_t)m->nr_zones * (free_lists + (size_t)(m->nr_cpus * m->nr_pcp_lists));
}

int witness_new(struct witness **out, const struct witness_config *config, const struct model *m,
		struct error *err)
{
	const struct zone *zone = pfn_zone(m, config->pfns[0]);
	struct witness *w;

	*out = NULL;
	if (!zone)
		return fail(err, EINVAL, "page %llu is in no zone",
			    (unsigned long long)config->pfns[0]);
	if (config->cpu >= m->nr_cpus || config->order > m->max_order ||
	    config->migratetype >= NR_MIGRATETYPE)
		return fail(err, EINVAL, "a request of CPU %u, order %u, migratetype %u",
			    config->cpu, config->order, config->migratetype);
	if (config->start > config->first || config->first > config->ran ||
	    config->ran > config->at)
		return fail(err, EINVAL, "rows %llu, %llu, %llu and %llu are not in order",
			    (unsigned long long)config->start, (unsigned long long)config->first,
			    (unsigned long long)config->ran, (unsigned long long)config->at);
	w = calloc(1, sizeof(*w));
	if (!w)
		return fail(err, ENOMEM, "no memory for a witness");
	w->config = *config;
	w->scene = (struct scene){zone, config->cpu, config->order, config->migratetype};
	w->nr_digests = config->at - config->start + 1;
	w->digests = calloc(w->nr_digests, sizeof(*w->digests));
	w->lists = calloc(most_lists(m), sizeof(*w->lists));
	if (!w->digests || !w->lists) {
		witness_free(w);
		return fail(err, ENOMEM, "no memory for the digests of %zu rows",
			    config->at - config->start + 1);
	}
	*out = w;
	return 0;
}

void witness_free(struct witness *w)
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

static uint32_t mix_list(uint32_t digest, const struct frame *frames, uint32_t list)
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

static void look_at_list(struct witness *w, const struct model *m, uint32_t list,
			 struct list_look look)
{
	const struct frame *frames = m->frames;

	for (uint32_t entry = frames[list].next; entry != list; entry = frames[entry].next) {
		if (look.nr < LOOK_ENTRIES)
			look.pfns[look.nr] = frame_pfn(m, entry);
		look.nr++;
	}
	for (uint32_t i = look.nr; i < LOOK_ENTRIES; i++)
		look.pfns[i] = UINT64_MAX;
	if (look.nr)
		w->lists[w->nr_lists++] = look;
}

static void look_at_lists(struct witness *w, const struct model *m)
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
		digest = mix(digest, (uint32_t)m->zones[i].drift);
	for (int i = 0; i < m->nr_zones * m->nr_cpus; i++)
		digest = mix(digest, (uint32_t)m->pcps[i].drift);
	return digest;
}

/* Where a page is, in words. */
static void tell_page(struct story *story, const struct model *m, uint64_t pfn)
{
	const struct zone *zone = pfn == UINT64_MAX ? NULL : pfn_zone(m, pfn);
	const struct frame *f;
	uint32_t head;

	if (!zone)
		return;
	head = block_head(m, zone->base + (uint32_t)(pfn - zone->base_pfn));
	f = &m->frames[head];
	story_tell(story, "  page %llu: ", (unsigned long long)pfn);
	if (f->state == FRAME_FREE)
		story_tell(story, "free, in a block of order %d, %.*s\n", f->order,
			   LABEL(&migratetype_labels, f->list));
	else if (f->state == FRAME_PCP)
		story_tell(story, "on the list of CPU %u, order %d\n", m->pcps[f->list].cpu,
			   f->order);
	else
		story_tell(story, "in use\n");
}

static void tell(const struct witness *w, struct story *story, const struct model *m)
{
	story_tell_state(story, m, &w->scene);
	tell_page(story, m, w->config.pfns[0]);
	tell_page(story, m, w->config.pfns[1]);
}

static void tell_after(struct witness *w, const struct model *m)
{
	if (!w->told_after)
		tell(w, &w->after, m);
	w->told_after = true;
}

void witness_see(struct witness *w, const struct model *m, uint64_t at, bool request)
{
	if (at >= w->config.first && !w->told_before) {
		tell(w, &w->before, m);
		w->told_before = true;
	}
	if (at > w->config.ran)
		tell_after(w, m);
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

void witness_end(struct witness *w, const struct model *m)
{
	tell_after(w, m);
	if (w->config.lists != UINT64_MAX)
		look_at_lists(w, m);
}

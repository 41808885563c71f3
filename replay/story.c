// SPDX-License-Identifier: Apache-2.0
#include "story.h"

#include "buddy.h"
#include "drift.h"
#include "pcp.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ENTRIES = 6 };

void story_tell(struct story *story, const char *format, ...)
{
	size_t length = strlen(story->text);
	va_list args;

	va_start(args, format);
	vsnprintf(story->text + length, sizeof(story->text) - length, format, args);
	va_end(args);
}

static void tell_list(struct story *story, const struct model *m, uint32_t list)
{
	const struct frame *f = m->frames;
	uint32_t entry = f[list].next;

	for (int i = 0; i < ENTRIES && entry != list; i++, entry = f[entry].next)
		story_tell(story, " %llu", (unsigned long long)frame_pfn(m, entry));
	story_tell(story, entry == list ? "\n" : " ...\n");
}

void story_tell_state(struct story *story, const struct model *m, const struct scene *scene)
{
	const struct zone *zone = scene->zone;
	const struct pcp *pcp = zone_pcp(m, zone, scene->cpu);
	int type = scene->migratetype;

	story_tell(
		story,
		"  pcp: count %d, high %d (%d to %d), batch %d, alloc_factor %d, free_count %d%s\n",
		pcp->count, pcp->high, pcp->high_min, pcp->high_max, pcp->batch, pcp->alloc_factor,
		pcp->free_count, zone->below_high ? ", zone below high" : "");
	if (pcp_allowed(m, scene->order) && type <= MIGRATETYPE_RECLAIMABLE) {
		story_tell(story,
			   "  zone: %llu pages free, %llu counted, marks %lld, %lld, %lld, boost "
			   "%lld\n",
			   (unsigned long long)zone->nr_free_pages,
			   (unsigned long long)zone_counted_free(zone),
			   (long long)zone->wmark[WMARK_MIN], (long long)zone->wmark[WMARK_LOW],
			   (long long)zone->wmark[WMARK_HIGH], (long long)zone->boost);
		story_tell(story, "  pcp list:");
		tell_list(story, m, pcp_list(m, pcp, scene->order, type));
	}
	for (int order = scene->order; order <= m->max_order; order++) {
		if (!zone->nr_free[order][type])
			continue;
		story_tell(story, "  free list of order %d, %u blocks:", order,
			   zone->nr_free[order][type]);
		tell_list(story, m, free_list(zone, order, type));
		break;
	}
}

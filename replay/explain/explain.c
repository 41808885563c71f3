// SPDX-License-Identifier: Apache-2.0
#include "explain.h"

#include "model/buddy.h"
#include "model/vmstat_diff.h"
#include "model/pcp.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ENTRIES = 6 };

void explain_print(struct explanation *explanation, const char *format, ...)
{
	size_t length = strlen(explanation->text);
	va_list args;

	va_start(args, format);
	vsnprintf(explanation->text + length, sizeof(explanation->text) - length, format, args);
	va_end(args);
}

static void print_list(struct explanation *explanation, const struct model *m, list_nr list)
{
	const struct frame *f = m->frames;
	frame_nr entry = f[list].next;

	for (int i = 0; i < ENTRIES && entry != list; i++, entry = f[entry].next)
		explain_print(explanation, " %llu", (unsigned long long)frame_pfn(m, entry));
	explain_print(explanation, entry == list ? "\n" : " ...\n");
}

void explain_print_state(struct explanation *explanation, const struct model *m,
			 const struct scene *scene)
{
	const struct zone *zone = scene->zone;
	const struct pcp *pcp = zone_pcp(m, zone, scene->cpu);
	int type = scene->migratetype;

	explain_print(
		explanation,
		"  pcp: count %d, high %d (%d to %d), batch %d, alloc_factor %d, free_count %d%s\n",
		pcp->count, pcp->high, pcp->high_min, pcp->high_max, pcp->batch, pcp->alloc_factor,
		pcp->free_count, zone->below_high ? ", zone below high" : "");
	if (pcp_allowed(m, scene->order) && type <= MIGRATETYPE_RECLAIMABLE) {
		explain_print(
			explanation,
			"  zone: %llu pages free, %llu counted, marks %lld, %lld, %lld, boost "
			"%lld\n",
			(unsigned long long)zone->nr_free_pages,
			(unsigned long long)zone_counted_free(zone),
			(long long)zone->wmark[WMARK_MIN], (long long)zone->wmark[WMARK_LOW],
			(long long)zone->wmark[WMARK_HIGH], (long long)zone->boost);
		explain_print(explanation, "  pcp list:");
		print_list(explanation, m, pcp_list(m, pcp, scene->order, type));
	}
	for (int order = scene->order; order <= m->max_order; order++) {
		if (!zone->nr_free[order][type])
			continue;
		explain_print(explanation, "  free list of order %d, %u blocks:", order,
			      zone->nr_free[order][type]);
		print_list(explanation, m, free_list(zone, order, type));
		break;
	}
}

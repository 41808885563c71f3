// SPDX-License-Identifier: Apache-2.0
#include "machinery.h"

#include <stdlib.h>

void machinery_new(struct machinery *w, const char *kernel, const char *policy)
{
	const struct machine machine = toy_machine(9, 10);
	const struct zone_spec zones[] = {
		{.type = ZONE_DMA,
		 .spanned = DMA_PAGES,
		 .present = DMA_PAGES,
		 .managed = DMA_PAGES,
		 .wmark = {8, 16, 32},
		 .lowmem_reserve = {[ZONE_NORMAL] = 2 * DMA_PAGES}},
		{.type = ZONE_NORMAL,
		 .start_pfn = NORMAL_PFN,
		 .spanned = NORMAL_PAGES,
		 .present = NORMAL_PAGES,
		 .managed = NORMAL_PAGES,
		 .wmark = {100, 200, 300}},
	};
	const struct anomalies anomalies = {.nr = w->anomalies};
	struct error err = {""};

	*w = (struct machinery){.feedback.supply.mode = RECLAIM_QUEUED};
	toy_new_machine_under(&w->toy, kernel, policy, &machine, zones, 2);
	w->toy.m->now.ts = 1;
	w->feedback.model = w->toy.m;
	must(serve_init(&w->serve, w->toy.m, anomalies, &err), &err);
	must(page_map_allow_moves(&w->serve.pages, &err), &err);
}

void machinery_start(struct machinery *w)
{
	struct error err = {""};

	must(reclaim_run_start(&w->feedback, &w->serve.pages, &w->serve.at, &err), &err);
}

void machinery_free(struct machinery *w)
{
	reclaim_run_free(&w->feedback);
	serve_free(&w->serve);
	toy_free(&w->toy);
}

void make_free(struct machinery *w, int zone, int pages, bool spread)
{
	uint32_t start = w->toy.m->zones[zone].start;

	w->toy.zone = &w->toy.m->zones[zone];
	if (spread)
		for (int i = 0; i < pages; i++)
			toy_add_free(&w->toy, start + 2u * (uint32_t)i, 0, 'M');
	else
		for (int i = 0; i < pages; i += BLOCK)
			toy_add_free(&w->toy, start + (uint32_t)i, 9, 'M');
}

void queue_pages(struct machinery *w, int pages, uint64_t first_ts)
{
	struct reclaimed *rows = calloc((size_t)pages, sizeof(*rows));

	for (int i = 0; i < pages; i++)
		rows[i] = (struct reclaimed){
			.at = 100 + (uint64_t)i,
			.ts = first_ts + (uint64_t)i * MS,
			.frame = pfn_frame(w->toy.m,
					   NORMAL_PFN + NORMAL_PAGES - 1 - 2 * (uint64_t)i),
			.next = UINT32_MAX,
		};
	w->feedback.supply.rows = rows;
	w->feedback.supply.nr = w->feedback.supply.room = (size_t)pages;
}

const struct counters *counters(const struct machinery *w, int zone)
{
	return &w->toy.m->pcps[zone].counters;
}

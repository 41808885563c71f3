// SPDX-License-Identifier: Apache-2.0
#include "serve_world.h"

void world_begin(struct world *w)
{
	struct error err;

	must(output_new(&w->output, &anomaly_table, 16, &err), &err);
	must(serve_init(&w->serve, w->toy.m, (struct anomalies){w->output, w->anomalies}, &err),
	     &err);
	must(page_map_allow_moves(&w->serve.pages, &err), &err);
}

void freed(struct world *w, uint32_t pfn, int order)
{
	for (uint32_t i = 0; i < 1u << order; i++)
		w->serve.pages.map[pfn + i] = MAP_FREED;
}

void free_(struct world *w, uint32_t pfn, int order)
{
	serve_request(&w->serve, &(struct waiting){
					 .kind = EVENT_KIND_FREE,
					 .frame = pfn,
					 .order = (uint8_t)order,
				 });
	w->serve.at++;
}

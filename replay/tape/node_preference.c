// SPDX-License-Identifier: Apache-2.0
#include "node_preference.h"

#include "model/memory.h"
#include "model/watermark.h"
#include "model/zonelist_scan.h"

#include <errno.h>

enum { SUSPECT_SHARE = 50 }; /* at least one request in this many is directed elsewhere */
#define GFP_LOW_ZONE (GFP_DMA | GFP_DMA32)

void node_preference_new(struct node_preference *p, const struct model *m)
{
	*p = (struct node_preference){.most = -1};
	if (m->nr_nodes > 1)
		p->threads = arrays_new(m->arrays, PIDS_MOST, sizeof(*p->threads));
}

/* Whether a zone is above a watermark by more than the differences of its CPUs may hide. */
static bool is_surely_above(const struct model *m, const struct zone *zone,
			    const struct request *rq, int wmark)
{
	struct zone least;

	if (!watermark_ok(m, zone, rq, zone_mark(zone, wmark)))
		return false;
	least = *zone;
	least.vmstat_diff = m->nr_cpus * zone->stat_threshold;
	return watermark_ok(m, &least, rq, zone_mark(zone, wmark));
}

/* Whether a node has memory for a request above a watermark, and no scan passes over the node. */
static bool has_memory(const struct model *m, const struct request *rq, int node, int wmark)
{
	if (m->kernel->skip_awake_nodes && kswapd_awake(m, node))
		return false;
	for (int i = 0; i < m->nr_zones; i++) {
		const struct zone *zone = &m->zones[i];

		if (zone->node == node && zone->type <= rq->class_zone &&
		    is_surely_above(m, zone, rq, wmark) && has_unmixed(m, zone, rq))
			return true;
	}
	return false;
}

/* Whether the place of an alloc's page shows which node the thread asked first. */
static bool is_countable(const struct window_event *alloc)
{
	return !event_depth(alloc) && !(alloc->gfp_flags & (GFP_THISNODE | GFP_LOW_ZONE));
}

/* Whether another node served an alloc although the CPU's node was above this watermark. */
static bool is_unforced(const struct model *m, const struct window_event *alloc, int wmark)
{
	uint16_t local = m->cpu_nodes[alloc->cpu];
	struct request rq;

	if (frame_zone(m, alloc->frame)->node == local || !is_countable(alloc))
		return false;
	rq = (struct request){
		.gfp_flags = alloc->gfp_flags,
		.order = alloc->order,
		.migratetype = alloc->migratetype,
		.class_zone = (uint8_t)gfp_class_zone(m, alloc->gfp_flags),
		.node = local,
	};
	if (never_mixes(m, &rq))
		rq.flags = ALLOC_NOFRAGMENT;
	return has_memory(m, &rq, local, wmark);
}

uint16_t node_preference_node(const struct model *m, const struct window_event *alloc)
{
	uint16_t landed = frame_zone(m, alloc->frame)->node;

	if (alloc->gfp_flags & GFP_THISNODE || is_unforced(m, alloc, WMARK_LOW))
		return landed;
	return m->cpu_nodes[alloc->cpu];
}

struct request request_of(const struct model *m, const struct window_event *alloc)
{
	return (struct request){
		.gfp_flags = alloc->gfp_flags,
		.order = alloc->order,
		.migratetype = alloc->migratetype,
		.class_zone = (uint8_t)gfp_class_zone(m, alloc->gfp_flags),
		.node = node_preference_node(m, alloc),
	};
}

uint32_t refill_gfp(int migratetype, uint8_t flags)
{
	uint32_t gfp = GFP_KSWAPD_RECLAIM;

	if (flags & (CONTEXT_SOFTIRQ | CONTEXT_HARDIRQ | CONTEXT_NMI) ||
	    migratetype == MIGRATETYPE_HIGHATOMIC)
		gfp |= GFP_HIGH;
	else
		gfp |= GFP_DIRECT_RECLAIM | GFP_IO | GFP_FS;
	if (migratetype == MIGRATETYPE_MOVABLE || migratetype == MIGRATETYPE_CMA)
		gfp |= GFP_MOVABLE | GFP_HIGHMEM;
	return migratetype == MIGRATETYPE_RECLAIMABLE ? gfp | GFP_RECLAIMABLE : gfp;
}

/* Whether the event shows the page of a request. */
static bool is_request(const struct model *m, const struct window_event *event)
{
	return event->kind == EVENT_KIND_ALLOC ||
	       (m->record->zone_events && event->kind == EVENT_KIND_ALLOC_ZONE_LOCKED);
}

void node_preference_see(struct node_preference *p, const struct model *m,
			 const struct window_event *event)
{
	uint16_t local = m->cpu_nodes[event->cpu];
	struct node_preference_count *count;

	if (!p->threads || !is_request(m, event) || (uint32_t)event->pid >= PIDS_MOST ||
	    !is_countable(event))
		return;
	count = &p->threads[event->pid];
	count->requests++;
	p->most = event->pid > p->most ? event->pid : p->most;
	count->remote += frame_zone(m, event->frame)->node != local;
	/*
	 * Without these orders: the event of a request that had to reclaim follows only when it is
	 * served.
	 */
	count->unforced += is_unforced(m, event, WMARK_HIGH);
}

void node_preference_write(const struct node_preference *p, struct output *o)
{
	for (int32_t pid = 0; pid <= p->most; pid++) {
		const struct node_preference_count *count = &p->threads[pid];
		bool landed = (uint64_t)count->unforced * SUSPECT_SHARE > count->requests;
		struct preference_columns *columns;
		size_t i;

		if (!count->requests)
			continue;
		i = output_row(o, &columns);
		columns->pid[i] = pid;
		columns->requests[i] = count->requests;
		columns->remote[i] = count->remote;
		columns->unforced[i] = count->unforced;
		columns->preferred[i] =
			landed ? PREFERENCE_PREFERRED_LANDED : PREFERENCE_PREFERRED_CPU;
	}
}

int node_preference_load(uint64_t **landed, struct arrays *arrays,
			 const struct preference_columns *columns, size_t rows, struct error *err)
{
	for (size_t i = 0; i < rows; i++) {
		int32_t pid = columns->pid[i];

		if (pid < 0 || pid >= PIDS_MOST)
			return fail(err, EINVAL, "preference: pid %d", pid);
		if (columns->preferred[i] != PREFERENCE_PREFERRED_LANDED)
			continue;
		if (!*landed)
			*landed = arrays_new(arrays, PIDS_MOST / 64, sizeof(**landed));
		if (!*landed)
			return arrays_error(arrays, err);
		(*landed)[pid / 64] |= 1ull << pid % 64;
	}
	return 0;
}

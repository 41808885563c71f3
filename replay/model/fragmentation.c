// SPDX-License-Identifier: Apache-2.0
#include "fragmentation.h"

#include "kernel.h"
#include "pcp.h"
#include "watermark.h"

int64_t fragmentation_index(const struct model *m, const struct zone *zone, int order)
{
	int64_t blocks = 0, pages = 0, suitable = 0;

	for (int o = 0; o <= m->max_order; o++)
		for (int type = 0; type < NR_MIGRATETYPE; type++) {
			blocks += zone->nr_free[o][type];
			pages += (int64_t)zone->nr_free[o][type] << o;
			if (o >= order)
				suitable += (int64_t)zone->nr_free[o][type] << (o - order);
		}
	if (!blocks)
		return 0;
	if (suitable)
		return -1000;
	return 1000 - (1000 + pages * 1000 / (1ll << order)) / blocks;
}

/* extfrag_for_order of a whole pageblock. */
int fragmentation_score_zone(const struct model *m, const struct zone *zone)
{
	int64_t pages = 0, suitable = 0;

	for (int o = 0; o <= m->max_order; o++)
		for (int type = 0; type < NR_MIGRATETYPE; type++) {
			int64_t free = (int64_t)zone->nr_free[o][type] << o;

			pages += free;
			suitable += o >= m->pageblock_order ? free : 0;
		}
	return pages ? (int)((pages - suitable) * 100 / pages) : 0;
}

static uint64_t node_present(const struct model *m, int node)
{
	uint64_t present = 0;

	for (int i = 0; i < m->nr_zones; i++)
		present += m->zones[i].node == node ? m->zones[i].present : 0;
	return present;
}

static int weighed_score(const struct model *m, const struct zone *zone, uint64_t present)
{
	uint64_t score = (uint64_t)fragmentation_score_zone(m, zone);

	return (int)(zone->present * score / (present + 1));
}

int proactive_score_zone(const struct model *m, const struct zone *zone)
{
	if (!m->kernel->proactive_weighed)
		return fragmentation_score_zone(m, zone);
	return weighed_score(m, zone, node_present(m, zone->node));
}

int fragmentation_score_node(const struct model *m, int node)
{
	uint64_t present = node_present(m, node);
	int score = 0;

	for (int i = 0; i < m->nr_zones; i++)
		if (m->zones[i].node == node)
			score += weighed_score(m, &m->zones[i], present);
	return score;
}

static int least(int a, int b)
{
	return a < b ? a : b;
}

struct score_marks score_marks(const struct kernel *kernel, int proactiveness)
{
	struct score_marks marks = {.low = 100 - proactiveness};
	int leeway = 10;

	if (kernel->proactive == PROACTIVE_FROM_5 && marks.low < 5)
		marks.low = 5;
	if (kernel->proactive == PROACTIVE_LEEWAY)
		leeway = least(leeway, marks.low / 2);
	marks.high = least(marks.low + leeway, 100);
	return marks;
}

int64_t compact_gap(const struct model *m, int order)
{
	int64_t gap = 2ll << order, most = m->kernel->compact_gap_max;

	return most && gap > most ? most : gap;
}

bool has_compact_gap(const struct model *m, const struct zone *zone, uint64_t nr_free, int order,
		     int class_zone, int wmark)
{
	const struct request single = {
		.migratetype = MIGRATETYPE_MOVABLE,
		.class_zone = (uint8_t)class_zone,
	};
	int64_t mark = zone_mark(zone, wmark) + compact_gap(m, order);

	if (order > PCP_MAX_ORDER)
		mark += zone->wmark[WMARK_LOW] - zone->wmark[WMARK_MIN];
	return watermark_ok_of(m, zone, nr_free, &single, mark);
}

enum compact_suits compact_suits(const struct model *m, const struct zone *zone, int order,
				 int class_zone, bool kcompactd)
{
	const struct request rq = {
		.order = (uint8_t)order,
		.migratetype = MIGRATETYPE_UNMOVABLE,
		.class_zone = (uint8_t)class_zone,
	};
	/* vm.defrag_mode, 6.15: kcompactd works for the high watermark in whole blocks. */
	bool whole = kcompactd && m->kernel->whole_blocks;
	int wmark = whole ? WMARK_HIGH : WMARK_MIN;
	uint64_t nr_free = whole ? zone_free_for(m, zone, order) : zone_counted_free(zone);
	int64_t index;

	if (watermark_ok_of(m, zone, nr_free, &rq, zone_mark(zone, wmark)))
		return COMPACT_SERVES;
	if (!has_compact_gap(m, zone, zone_counted_free(zone), order, class_zone, wmark))
		return COMPACT_CANNOT;
	index = order > PCP_MAX_ORDER ? fragmentation_index(m, zone, order) : -1;
	return index >= 0 && index <= EXTFRAG_THRESHOLD ? COMPACT_CANNOT : COMPACT_SUITS;
}

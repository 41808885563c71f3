// SPDX-License-Identifier: Apache-2.0
#include "fragmentation.h"

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

/* Whether the zone lacks not pages, but large blocks: asked for costly orders. */
static bool is_in_pieces(const struct model *m, const struct zone *zone, int order)
{
	int64_t index = order > PCP_MAX_ORDER ? fragmentation_index(m, zone, order) : -1;

	return index < 0 || index > EXTFRAG_THRESHOLD;
}

/* Order 0 for the same zones, without a right to CMA pages. */
static struct request single_of(int class_zone)
{
	return (struct request){
		.migratetype = MIGRATETYPE_UNMOVABLE,
		.class_zone = (uint8_t)class_zone,
	};
}

enum compact_suits compact_suits(const struct model *m, const struct zone *zone,
				 const struct request *rq, enum compact_caller caller)
{
	/* vm.defrag_mode, 6.15: kcompactd works for the high watermark in whole blocks. */
	bool whole = caller == COMPACT_BY_KCOMPACTD && m->kernel->whole_blocks;
	int wmark = whole ? WMARK_HIGH : WMARK_MIN, order = rq->order;
	uint64_t nr_free = whole ? zone_free_for(m, zone, order) : zone_counted_free(zone);
	const struct request single = single_of(rq->class_zone);

	if (watermark_ok_of(m, zone, nr_free, rq, zone_mark(zone, wmark)))
		return COMPACT_SERVES;
	if (m->kernel->compact_own_gap && caller == COMPACT_BY_REQUEST_ASYNC &&
	    order > PCP_MAX_ORDER && rq->migratetype != MIGRATETYPE_MOVABLE &&
	    !watermark_ok(m, zone, &single, zone_mark(zone, wmark) + compact_gap(m, order)))
		return COMPACT_CANNOT;
	if (!has_compact_gap(m, zone, zone_counted_free(zone), order, rq->class_zone, wmark))
		return COMPACT_CANNOT;
	return is_in_pieces(m, zone, order) ? COMPACT_SUITS : COMPACT_CANNOT;
}

bool compact_ready(const struct model *m, const struct zone *zone, int order, int class_zone)
{
	const struct request single = single_of(class_zone);
	struct request rq = single;
	uint64_t nr_free = zone_counted_free(zone);
	int64_t high = zone_mark(zone, WMARK_HIGH) + compact_gap(m, order);
	int wmark = m->kernel->compact_ready_high ? WMARK_HIGH : WMARK_MIN;

	rq.order = (uint8_t)order;
	if (watermark_ok(m, zone, &rq, zone_mark(zone, WMARK_MIN)))
		return true;
	if (!has_compact_gap(m, zone, nr_free, order, class_zone, wmark) ||
	    !is_in_pieces(m, zone, order))
		return false;
	return m->kernel->compact_ready_high || watermark_ok(m, zone, &single, high);
}

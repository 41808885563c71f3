// SPDX-License-Identifier: Apache-2.0
#include "fragmentation_sample.h"

#include "model/buddy.h"

const struct table *const fragmentation_sample_tables[NR_FRAGMENTATION_SAMPLE] = {
	[SAMPLE_FREE_COUNT] = &free_count_table,
	[SAMPLE_BLOCK_MIX] = &block_mix_table,
	[SAMPLE_RESERVE] = &reserve_table,
};

enum { NR_LIVE = MIGRATETYPE_RECLAIMABLE + 1 };

/* The used pages of one pageblock. */
struct content {
	uint32_t pages[NR_LIVE]; /* of known migratetype */
	uint32_t lru;            /* of the movable ones, those used since before the tape */
	uint32_t unknown;
};

/* Bounds of a number, because the migratetype of some pages is unknown. */
struct bounds {
	uint64_t low, high;
};

/* The columns of block_mix. */
struct mix {
	uint64_t blocks, live_blocks;
	struct content content; /* of all */
	struct bounds mixed, polluted, foreign, thp;
};

static void write_free_count(const struct model *m, const struct zone *zone, struct output *output,
			     uint64_t ts)
{
	for (int order = 0; order <= m->max_order; order++) {
		struct free_count_columns *columns;
		size_t i = output_row(output, &columns);
		uint64_t nr = 0;

		for (int type = 0; type < NR_MIGRATETYPE; type++)
			nr += zone->nr_free[order][type];
		columns->ts[i] = ts;
		columns->node[i] = zone->node;
		columns->zone[i] = zone->type;
		columns->page_order[i] = (uint8_t)order;
		columns->nr_free[i] = nr;
	}
}

static struct content block_content(const struct pageblock *block)
{
	struct content c = {
		.lru = block->old_lru,
		.unknown = (uint32_t)block->nr_old - block->old_lru,
	};

	for (int type = 0; type < NR_LIVE; type++)
		c.pages[type] = block->nr_live[type];
	c.pages[MIGRATETYPE_MOVABLE] += c.lru;
	return c;
}

/* The migratetype whose pages belong in a block of this type; -1: any, or none. */
static int home_type(int migratetype)
{
	if (migratetype == MIGRATETYPE_CMA)
		return MIGRATETYPE_MOVABLE;
	return migratetype <= MIGRATETYPE_RECLAIMABLE ? migratetype : -1;
}

static void add(struct bounds *bounds, uint64_t certain, uint64_t possible)
{
	bounds->low += certain;
	bounds->high += possible;
}

static void mix_add(struct mix *mix, const struct pageblock *block, bool whole)
{
	struct content c = block_content(block);
	uint32_t known = 0, types = 0, not_movable;
	int home = home_type(block->migratetype);

	for (int type = 0; type < NR_LIVE; type++) {
		mix->content.pages[type] += c.pages[type];
		known += c.pages[type];
		types += c.pages[type] > 0;
	}
	not_movable = known - c.pages[MIGRATETYPE_MOVABLE];
	mix->content.lru += c.lru;
	mix->content.unknown += c.unknown;
	mix->blocks++;
	mix->live_blocks += known || c.unknown;
	add(&mix->mixed, types >= 2, types + c.unknown >= 2);
	if (block->migratetype == MIGRATETYPE_MOVABLE)
		add(&mix->polluted, not_movable > 0, not_movable || c.unknown);
	if (home >= 0)
		add(&mix->foreign, known - c.pages[home], known - c.pages[home] + c.unknown);
	if (whole)
		add(&mix->thp, !not_movable && !c.unknown, !not_movable);
}

static void write_zone_mix(const struct model *m, const struct pageblock *blocks,
			   const struct zone *zone, struct output *output, uint64_t ts)
{
	struct block_mix_columns *columns;
	struct mix mix = {0};
	size_t i = output_row(output, &columns);

	for (uint32_t start = block_start(m, zone->start); start < zone->end;
	     start += 1u << m->pageblock_order) {
		const struct pageblock *block = &blocks[start >> m->pageblock_order];

		if (block_exists(m, block))
			mix_add(&mix, block, block_inside(m, zone, start));
	}
	columns->ts[i] = ts;
	columns->node[i] = zone->node;
	columns->zone[i] = zone->type;
	columns->blocks[i] = (uint32_t)mix.blocks;
	columns->live_blocks[i] = (uint32_t)mix.live_blocks;
	columns->unmovable_pages[i] = mix.content.pages[MIGRATETYPE_UNMOVABLE];
	columns->movable_pages[i] = mix.content.pages[MIGRATETYPE_MOVABLE] - mix.content.lru;
	columns->reclaimable_pages[i] = mix.content.pages[MIGRATETYPE_RECLAIMABLE];
	columns->lru_pages[i] = mix.content.lru;
	columns->unknown_pages[i] = mix.content.unknown;
	columns->mixed_low[i] = (uint32_t)mix.mixed.low;
	columns->mixed_high[i] = (uint32_t)mix.mixed.high;
	columns->polluted_low[i] = (uint32_t)mix.polluted.low;
	columns->polluted_high[i] = (uint32_t)mix.polluted.high;
	columns->foreign_low[i] = mix.foreign.low;
	columns->foreign_high[i] = mix.foreign.high;
	columns->thp_low[i] = (uint32_t)mix.thp.low;
	columns->thp_high[i] = (uint32_t)mix.thp.high;
}

/* The columns of reserve. */
struct reserve {
	uint32_t blocks, home, astray, pcp;
};

static void reserve_add(const struct model *m, uint32_t start, struct reserve *reserve)
{
	reserve->blocks++;
	for (frame_nr page = start; page < block_end(m, start); page++) {
		const struct frame *f = &m->frames[block_head(m, page)];

		reserve->home += f->state == FRAME_FREE && f->list == MIGRATETYPE_RESERVE;
		reserve->astray += f->state == FRAME_FREE && f->list != MIGRATETYPE_RESERVE;
		reserve->pcp += f->state == FRAME_PCP;
	}
}

static void write_reserve(const struct model *m, const struct zone *zone, struct output *output,
			  uint64_t ts)
{
	struct reserve_columns *columns;
	struct reserve reserve = {0};
	size_t i = output_row(output, &columns);

	for (uint32_t start = block_start(m, zone->start); start < zone->end;
	     start += 1u << m->pageblock_order)
		if (frame_block(m, start)->migratetype == MIGRATETYPE_RESERVE)
			reserve_add(m, start, &reserve);
	columns->ts[i] = ts;
	columns->node[i] = zone->node;
	columns->zone[i] = zone->type;
	columns->blocks[i] = reserve.blocks;
	columns->home_pages[i] = reserve.home;
	columns->astray_pages[i] = reserve.astray;
	columns->pcp_pages[i] = reserve.pcp;
}

void block_mix_write(const struct model *m, const struct pageblock *blocks, struct output *output,
		     uint64_t ts)
{
	for (int z = 0; z < m->nr_zones; z++)
		write_zone_mix(m, blocks, &m->zones[z], output, ts);
}

void fragmentation_sample_write(const struct model *m,
				struct output *const outputs[NR_FRAGMENTATION_SAMPLE], uint64_t ts)
{
	block_mix_write(m, m->blocks, outputs[SAMPLE_BLOCK_MIX], ts);
	for (int z = 0; z < m->nr_zones; z++) {
		write_free_count(m, &m->zones[z], outputs[SAMPLE_FREE_COUNT], ts);
		if (m->kernel->reserve_blocks)
			write_reserve(m, &m->zones[z], outputs[SAMPLE_RESERVE], ts);
	}
}

// SPDX-License-Identifier: Apache-2.0
/*
 * The rows of a fragmentation sample, on zones with pageblocks of 16 pages.
 */
#include "check.h"
#include "run/fragmentation_sample.h"
#include "toy.h"

/* The block_mix row of the toy's zone. */
struct mix_row {
	uint32_t blocks, live_blocks;
	uint64_t unmovable, movable, reclaimable, lru, unknown;
	uint32_t mixed[2], polluted[2], thp[2]; /* low, high */
	uint64_t foreign[2];
};

static void new_outputs(struct output *outputs[NR_FRAGMENTATION_SAMPLE])
{
	for (int i = 0; i < NR_FRAGMENTATION_SAMPLE; i++)
		check(!output_new(&outputs[i], fragmentation_sample_tables[i], 64, NULL));
}

static void free_outputs(struct output *outputs[NR_FRAGMENTATION_SAMPLE])
{
	for (int i = 0; i < NR_FRAGMENTATION_SAMPLE; i++)
		output_free(outputs[i]);
}

static struct mix_row fragmentation_sample(struct toy *t)
{
	struct output *outputs[NR_FRAGMENTATION_SAMPLE];
	struct block_mix_columns *c;
	struct mix_row row;
	struct batch *batch;

	new_outputs(outputs);
	fragmentation_sample_write(t->m, outputs, 7);
	batch = output_pop(outputs[SAMPLE_BLOCK_MIX], true);
	check(batch && batch->nr == 1);
	c = (struct block_mix_columns *)batch->slots;
	check(c->ts[0] == 7);
	row = (struct mix_row){
		.blocks = c->blocks[0],
		.live_blocks = c->live_blocks[0],
		.unmovable = c->unmovable_pages[0],
		.movable = c->movable_pages[0],
		.reclaimable = c->reclaimable_pages[0],
		.lru = c->lru_pages[0],
		.unknown = c->unknown_pages[0],
		.mixed = {c->mixed_low[0], c->mixed_high[0]},
		.polluted = {c->polluted_low[0], c->polluted_high[0]},
		.thp = {c->thp_low[0], c->thp_high[0]},
		.foreign = {c->foreign_low[0], c->foreign_high[0]},
	};
	free_outputs(outputs);
	check_sound(t->m);
	return row;
}

static bool is_pair(const uint32_t bounds[2], uint32_t low, uint32_t high)
{
	return bounds[0] == low && bounds[1] == high;
}

/* A zone with free pages only, and a PCP batch of one page. */
static void new_free_zone(struct toy *t, const char *blocks)
{
	toy_new(t, "6.18", (struct toy_geometry){4, 4, blocks, ZONE_DMA});
	toy_pcp(t, 1, 1);
	for (uint32_t i = 0; blocks[i]; i++)
		toy_add_free(t, 16 * i, 4, blocks[i]);
}

TEST(a_free_zone_mixes_nothing)
{
	struct mix_row row;

	TOY(t, new_free_zone, "MUR");
	row = fragmentation_sample(&t);
	check(row.blocks == 3 && row.live_blocks == 0 && row.unknown == 0);
	check(is_pair(row.mixed, 0, 0) && is_pair(row.polluted, 0, 0) && is_pair(row.thp, 3, 3));
	check(row.foreign[0] == 0 && row.foreign[1] == 0);
}

TEST(an_unmovable_page_in_a_movable_block_pollutes_and_mixes_it)
{
	struct mix_row row;
	uint64_t pfn;

	TOY(t, new_free_zone, "MM");
	toy_alloc(&t, 4, 'M');
	toy_alloc(&t, 3, 'M');
	toy_alloc(&t, 2, 'M');
	pfn = toy_alloc(&t, 0, 'U'); /* too few free pages to claim the block */
	row = fragmentation_sample(&t);
	check_text(toy_blocks(&t), "MM");
	check(row.live_blocks == 2 && row.unmovable == 1 && row.movable == 28);
	check(is_pair(row.mixed, 1, 1) && is_pair(row.polluted, 1, 1) && is_pair(row.thp, 1, 1));
	check(row.foreign[0] == 1 && row.foreign[1] == 1);

	toy_free_page(&t, (uint32_t)pfn, 0);
	row = fragmentation_sample(&t);
	check(row.unmovable == 0 && is_pair(row.mixed, 0, 0) && is_pair(row.thp, 2, 2));
}

TEST(a_reclaimable_page_counts_as_its_own_kind)
{
	struct mix_row row;

	TOY(t, new_free_zone, "RU");
	toy_alloc(&t, 4, 'R');
	toy_alloc(&t, 4, 'U');
	row = fragmentation_sample(&t);
	check(row.unmovable == 16 && row.reclaimable == 16 && row.movable == 0);
	check(is_pair(row.mixed, 0, 0) && is_pair(row.polluted, 0, 0) && is_pair(row.thp, 0, 0));
	check(row.foreign[1] == 0);
	t.m->blocks[0].migratetype = MIGRATETYPE_UNMOVABLE;
	row = fragmentation_sample(&t);
	check(row.foreign[0] == 16);
}

TEST(movable_pages_are_at_home_in_cma_and_none_is_in_highatomic)
{
	struct mix_row row;

	TOY(t, new_free_zone, "MM");
	toy_alloc(&t, 4, 'M');
	toy_alloc(&t, 4, 'M');
	t.m->blocks[0].migratetype = MIGRATETYPE_CMA;
	t.m->blocks[1].migratetype = MIGRATETYPE_HIGHATOMIC;
	row = fragmentation_sample(&t);
	check(row.movable == 32 && row.foreign[0] == 0 && row.foreign[1] == 0);
	check(is_pair(row.thp, 2, 2));
}

TEST(old_pages_of_unknown_kind_widen_the_bounds)
{
	struct mix_row row;

	TOY(t, toy_new, "6.18", (struct toy_geometry){4, 4, "MMU", ZONE_DMA});
	t.m->blocks[0].old_movable = t.m->blocks[0].old_lru = 16; /* a block of page cache */
	t.m->blocks[1].old_movable = 16; /* a guess, not known to be on an LRU */
	t.m->blocks[2].old_lru = 15;
	row = fragmentation_sample(&t);
	check(row.live_blocks == 3 && row.lru == 31 && row.unknown == 17);
	check(is_pair(row.mixed, 0, 2) && is_pair(row.polluted, 0, 1) && is_pair(row.thp, 1, 3));
	check(row.foreign[0] == 15 && row.foreign[1] == 15 + 17);
}

TEST(a_freed_old_page_may_have_had_any_type)
{
	struct mix_row row;

	TOY(t, toy_new, "6.18", (struct toy_geometry){4, 4, "M", ZONE_DMA});
	toy_pcp(&t, 1, 1);
	t.m->blocks[0].old_movable = t.m->blocks[0].old_lru = 2;
	toy_free_page(&t, 3, 0);
	row = fragmentation_sample(&t);
	check(row.lru == 1 && row.unknown == 14);
	toy_free_page(&t, 4, 0);
	toy_free_page(&t, 5, 0);
	row = fragmentation_sample(&t);
	check(row.lru == 0 && row.unknown == 13);
}

TEST(memory_that_the_kernel_has_not_initialised_is_no_block)
{
	struct mix_row row;

	TOY(t, toy_new, "6.18", (struct toy_geometry){4, 4, "MMM", ZONE_DMA});
	t.m->blocks_known = t.m->blocks[1].known = true;
	row = fragmentation_sample(&t);
	check(row.blocks == 1 && row.unknown == 16);
}

TEST(a_block_across_the_end_of_its_zone_makes_no_huge_page)
{
	const struct machine machine = toy_machine(4, 4);
	const struct zone_spec zone = {.start_pfn = 8, .spanned = 48, .present = 48, .managed = 48};
	struct mix_row row;

	TOY(t, toy_new_machine, "6.18", &machine, &zone, 1);
	row = fragmentation_sample(&t);
	check(row.blocks == 4 && row.unknown == 48 && is_pair(row.thp, 0, 2));
}

TEST(free_blocks_are_counted_by_order_over_all_migratetypes)
{
	struct output *outputs[NR_FRAGMENTATION_SAMPLE];
	struct free_count_columns *c;
	struct batch *batch;

	TOY(t, toy_new, "6.18", (struct toy_geometry){4, 4, "MUR", ZONE_DMA});
	toy_add_free(&t, 0, 1, 'M');
	toy_add_free(&t, 16, 1, 'U');
	toy_add_free(&t, 32, 4, 'R');
	new_outputs(outputs);
	fragmentation_sample_write(t.m, outputs, 7);
	batch = output_pop(outputs[SAMPLE_FREE_COUNT], true);
	check(batch && batch->nr == 5);
	c = (struct free_count_columns *)batch->slots;
	for (uint8_t order = 0; order < 5; order++) {
		check(c->page_order[order] == order && !is_valid(c->at_valid, order));
		check(c->nr_free[order] == (order == 1 ? 2 : order == 4));
	}
	free_outputs(outputs);
}

// SPDX-License-Identifier: Apache-2.0
/*
 * Snapshots, exact or guessed, as the state of a model. The machine is that of free_run.h.
 */
#include "check.h"
#include "free_run.h"

#include <errno.h>

TEST(a_snapshot_that_contradicts_itself_is_refused)
{
	static const struct {
		uint64_t pfn;
		int order;
		const char *msg;
	} cases[] = {
		{1ull << 40, 0, "block_guess: pfn 1099511627776 is in no zone"},
		{600, 200, "block_guess: pfn 600 has order 200"},
		{601, 1, "block_guess: pfn 601 cannot begin a block of order 1"},
		{1030, 1, "block_guess: pfn 1030 of order 1 overlaps another block"},
		{1024, 0, "block_guess: pfn 1024 of order 0 overlaps another block"},
	};
	struct error err = {""};
	struct replay *r = tape_replay("6.18");

	check(tape_load_guess(r, 512, 9, &err) == -ENODATA);
	must(tape_load_zones(r, &err), &err);
	must(tape_load_guess(r, 1024, 3, &err), &err);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		check(tape_load_guess(r, cases[i].pfn, cases[i].order, &err) == -EINVAL);
		check_text(err.msg, cases[i].msg);
	}
	check(tape_load_zones(r, &err) == -EINVAL);
	check_text(err.msg, "rows of zone must come before all others");
	replay_free(r);
}

static void load_free_block(struct replay *r, uint64_t pfn, int order, int type)
{
	struct batch *batch = toy_rows(&free_block_table, 1);
	struct free_block_columns *c = (struct free_block_columns *)batch->slots;
	struct error err;

	c->zone[0] = ZONE_NORMAL;
	c->pfn[0] = pfn;
	c->page_order[0] = (uint8_t)order;
	c->migratetype[0] = (uint8_t)type;
	must(tape_hand_over(r, batch, false, &err), &err);
	batch_free(batch);
}

static void load_pcp(struct replay *r, uint32_t count, uint64_t page)
{
	struct batch *pcp = toy_rows(&pcp_table, 1), *pages = toy_rows(&pcp_page_table, 1);
	struct pcp_columns *c = (struct pcp_columns *)pcp->slots;
	struct pcp_page_columns *p = (struct pcp_page_columns *)pages->slots;
	struct error err;

	c->zone[0] = p->zone[0] = ZONE_NORMAL;
	c->count[0] = count;
	c->high[0] = c->batch[0] = 63;
	p->pfn[0] = page;
	p->migratetype[0] = MIGRATETYPE_MOVABLE;
	must(tape_hand_over(r, pcp, false, &err), &err);
	must(tape_hand_over(r, pages, false, &err), &err);
	batch_free(pcp);
	batch_free(pages);
}

TEST(a_snapshot_may_be_exact_in_one_zone_and_a_guess_in_another)
{
	struct batch *none = toy_rows(&event_table, 0);
	struct replay *r = tape_replay("6.8");
	const struct model *m;
	struct error err;

	must(tape_load_zones(r, &err), &err);
	load_pcp(r, 3, 2 * BLOCK); /* one of its three pages is listed */
	load_free_block(r, 3 * BLOCK + 8, 3, MIGRATETYPE_UNMOVABLE);
	must(tape_load_guess(r, ZONE_PAGES + 8, 3, &err), &err);
	must(tape_hand_over(r, none, true, &err), &err);
	m = replay_model(r);
	/* All pageblocks are MOVABLE, but a listed block stays on its own list. */
	check(m->zones[0].nr_free[3][MIGRATETYPE_UNMOVABLE] == 1);
	check(m->zones[1].nr_free[3][MIGRATETYPE_MOVABLE] == 1);
	check(m->zones[0].pcp_unseen == 2);
	batch_free(none);
	replay_free(r);
}

TEST(a_free_block_that_may_not_merge_keeps_its_place)
{
	struct replay *r = tape_replay("6.8");
	const struct model *m;
	struct error err;
	uint32_t list;

	must(tape_load_zones(r, &err), &err);
	load_free_block(r, 3 * BLOCK, 9, MIGRATETYPE_HIGHATOMIC);
	m = replay_model(r);
	m->blocks[3].migratetype = MIGRATETYPE_HIGHATOMIC;
	load_free_block(r, 7 * BLOCK, 9, MIGRATETYPE_MOVABLE);
	load_free_block(r, 2 * BLOCK, 9, MIGRATETYPE_MOVABLE);
	list = free_list(&m->zones[0], 9, MIGRATETYPE_MOVABLE);
	check(m->frames[list].next == 7 * BLOCK && m->frames[list].prev == 2 * BLOCK);
	replay_free(r);
}

TEST(the_reserve_of_2_6_begins_with_the_zone)
{
	struct replay *r = tape_replay("2.6.32");
	const struct model *m;
	struct error err;

	must(tape_load_zones_at(r, BLOCK / 2, &err), &err);
	must(tape_load_guess(r, 2 * BLOCK, 9, &err), &err);
	m = replay_model(r);
	must(replay_finish(r, &err), &err);
	check(m->blocks[0].migratetype == MIGRATETYPE_RESERVE);
	check(m->blocks[1].migratetype == MIGRATETYPE_MOVABLE);
	replay_free(r);
}

TEST(a_pageblock_has_at_most_its_used_pages_on_lru_lists)
{
	struct batch *blocks = toy_rows(&pageblock_table, 2);
	struct pageblock_columns *c = (struct pageblock_columns *)blocks->slots;
	struct replay *r = tape_replay("6.8");
	struct error err;

	must(tape_load_zones(r, &err), &err);
	load_free_block(r, 2 * BLOCK, 8, MIGRATETYPE_MOVABLE);
	for (size_t i = 0; i < 2; i++) {
		c->pfn[i] = (2 + i) * BLOCK;
		c->migratetype[i] = MIGRATETYPE_MOVABLE;
		c->nr_movable[i] = BLOCK;
		set_valid(c->nr_movable_valid, i);
	}
	must(tape_hand_over(r, blocks, false, &err), &err);
	load_free_block(r, 3 * BLOCK, 8, MIGRATETYPE_MOVABLE);
	/* True at any time, also if the tape is refused by now. */
	check_sound(replay_model(r));
	check(replay_model(r)->blocks[2].old_lru == BLOCK / 2);
	check(replay_model(r)->blocks[3].old_lru == BLOCK / 2);
	batch_free(blocks);
	replay_free(r);
}

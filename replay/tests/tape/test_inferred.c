// SPDX-License-Identifier: Apache-2.0
/* Rows of the table inferred: written by validate, loaded by a free run. Pageblocks of 16 pages. */
#include "check.h"
#include "toy.h"

#include "tape/inferred.h"

#include <errno.h>

static bool same(const struct inferred *a, const struct inferred *b)
{
	return a->at == b->at && a->ts == b->ts && a->since == b->since &&
	       a->event_row == b->event_row && a->frame == b->frame &&
	       a->gfp_flags == b->gfp_flags && a->pid == b->pid && a->cpu == b->cpu &&
	       a->kind == b->kind && a->order == b->order && a->migratetype == b->migratetype &&
	       a->fields == b->fields && a->below_high == b->below_high && a->high == b->high;
}

TEST(a_row_that_is_written_is_loaded_as_it_was)
{
	const struct inferred written[] = {
		{.at = 3,
		 .ts = 30,
		 .since = 2,
		 .event_row = 9,
		 .frame = 18,
		 .gfp_flags = GFP_DMA | GFP_ZERO,
		 .pid = 5,
		 .kind = INFERRED_KIND_EARLY_ALLOC,
		 .order = 1,
		 .migratetype = MIGRATETYPE_RECLAIMABLE},
		{.at = 4,
		 .ts = 40,
		 .since = 4,
		 .event_row = UINT64_MAX,
		 .frame = 16,
		 .gfp_flags = GFP_DMA | GFP_DIRECT_RECLAIM | GFP_KSWAPD_RECLAIM | GFP_IO | GFP_FS,
		 .kind = INFERRED_KIND_TUNED,
		 .fields = FIELD_HIGH | FIELD_BELOW_HIGH,
		 .below_high = true,
		 .high = 77},
	};
	struct inferred_rows rows = {0};
	const struct inferred *row;
	struct output *out;
	struct batch *batch;
	struct error err;

	TOY(t, toy_new, "6.18", (struct toy_geometry){4, 5, "MM", ZONE_DMA});
	must(output_new(&out, &inferred_table, 8, &err), &err);
	for (int i = 0; i < 2; i++)
		inferred_write(out, t.m, &written[i]);
	batch = output_pop(out, true);
	must(inferred_load(&rows, t.m, (struct inferred_columns *)batch->slots, batch->nr, 0, &err),
	     &err);
	check(rows.nr == 2);
	check(!inferred_next(&rows, 2));
	row = inferred_next(&rows, 3);
	check(row && same(row, &written[0]));
	check(!inferred_next(&rows, 3));
	row = inferred_next(&rows, 100);
	check(row && same(row, &written[1]));
	check(!inferred_next(&rows, 100));
	output_free(out);
}

TEST(impossible_rows_are_refused_and_rows_before_the_start_skipped)
{
	static const struct {
		uint64_t at, pfn;
		int order, cpu;
		const char *msg;
	} cases[] = {
		{5, 32, 0, 0, "inferred: row of event 5: pfn 32, order 0, CPU 0"},
		{5, 0, 6, 0, "inferred: row of event 5: pfn 0, order 6, CPU 0"},
		{5, 0, 0, 1, "inferred: row of event 5: pfn 0, order 0, CPU 1"},
		{5, 31, 1, 0, "inferred: pfn 31 cannot begin a block of order 1"},
		{5, 17, 1, 0, "inferred: pfn 17 cannot begin a block of order 1"},
		{3, 0, 0, 0, "inferred: row 1 goes back from event 4 to 3"},
	};
	struct batch *batch = toy_rows(&inferred_table, 1);
	struct inferred_columns *c = (struct inferred_columns *)batch->slots;
	struct inferred_rows rows = {0};
	struct error err = {""};

	TOY(t, toy_new, "6.18", (struct toy_geometry){4, 5, "MM", ZONE_DMA});
	c->at[0] = 1;
	must(inferred_load(&rows, t.m, c, 1, 2, &err), &err);
	check(rows.nr == 0);
	c->at[0] = 4;
	must(inferred_load(&rows, t.m, c, 1, 2, &err), &err);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		c->at[0] = cases[i].at;
		c->pfn[0] = cases[i].pfn;
		c->page_order[0] = (uint8_t)cases[i].order;
		c->cpu[0] = (uint16_t)cases[i].cpu;
		check(inferred_load(&rows, t.m, c, 1, 2, &err) == -EINVAL);
		check_text(err.msg, cases[i].msg);
	}
	c->page_order[0] = 0;
	c->at[0] = 5;
	c->pfn[0] = c->cpu[0] = 0;
	c->since[0] = 6;
	set_valid(c->since_valid, 0);
	check(inferred_load(&rows, t.m, c, 1, 2, &err) == -EINVAL);
	check_text(err.msg, "inferred: row of event 5: since event 6");
	check(rows.nr == 1);
	batch_free(batch);
}

enum { MOVED = 400 };

/* Rows 10 events apart; every other one has a window of 50 rows. Two rows share a page and a row.
 */
static void fill(struct inferred *rows)
{
	for (uint64_t i = 0; i < MOVED; i++)
		rows[i] = (struct inferred){.at = 1000 + 10 * i,
					    .ts = 1,
					    .since = 1000 + 10 * i - (i % 2 ? 50 : 0),
					    .event_row = i,
					    .frame = (uint32_t)i};
	rows[MOVED - 1].at = rows[MOVED - 3].at;
	rows[MOVED - 1].since = rows[MOVED - 3].since;
	rows[MOVED - 1].frame = rows[MOVED - 3].frame;
}

static uint64_t moved_by(struct inferred *rows, uint64_t seed, uint64_t first)
{
	struct inferred_rows all = {rows, MOVED, MOVED, 0};
	uint64_t moved = 0;
	struct error err;

	fill(rows);
	must(inferred_move(&all, seed, first, &moved, &err), &err);
	return moved;
}

TEST(moments_are_drawn_within_their_windows)
{
	struct inferred rows[MOVED];
	uint64_t early = 0, late = 0;

	for (uint64_t seed = 1; seed <= 50; seed++) {
		uint64_t moved = moved_by(rows, seed, 0), seen = 0, places[MOVED];

		check(moved > MOVED / 3 && moved <= MOVED / 2);
		for (int i = 0; i < MOVED; i++) {
			const struct inferred *row = &rows[i];
			uint64_t was = row->event_row == MOVED - 1 ? MOVED - 3 : row->event_row;

			check(!i || row->at >= rows[i - 1].at);
			check(row->at >= row->since && row->at <= 1000 + 10 * was);
			check(was % 2 || row->at == row->since);
			check((row->ts == 0) == (row->at != 1000 + 10 * was));
			seen += row->ts == 0;
			early += was % 2 && row->at < row->since + 25;
			late += was % 2 && row->at > row->since + 25;
			places[row->event_row] = (uint64_t)i;
		}
		check(seen == moved);
		/* Rows of one request stay together, in their order. */
		check(places[MOVED - 1] > places[MOVED - 3] &&
		      rows[places[MOVED - 1]].at == rows[places[MOVED - 3]].at);
	}
	/* As many in each half, of 10,000. */
	check(early > 4500 && late > 4500);
}

TEST(a_seed_always_draws_the_same_moments)
{
	struct inferred one[MOVED], other[MOVED];
	int differ = 0;

	moved_by(one, 3, 0);
	moved_by(other, 3, 0);
	for (int i = 0; i < MOVED; i++)
		check(one[i].at == other[i].at && one[i].event_row == other[i].event_row);
	moved_by(other, 4, 0);
	for (int i = 0; i < MOVED; i++)
		differ += one[i].at != other[i].at;
	check(differ > MOVED / 4);
}

TEST(no_row_moves_before_the_start)
{
	struct inferred rows[MOVED];

	moved_by(rows, 1, 2000);
	for (int i = 0; i < MOVED; i++)
		check(rows[i].at >= 2000 || rows[i].at == 1000 + 10 * rows[i].event_row);
}

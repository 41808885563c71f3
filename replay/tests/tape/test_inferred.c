// SPDX-License-Identifier: Apache-2.0
/* Rows of the table inferred: written by validate, loaded by a free run. Pageblocks of 16 pages. */
#include "check.h"
#include "toy.h"

#include "tape/inferred.h"

#include <errno.h>

static bool same(const struct inferred *a, const struct inferred *b)
{
	return a->at == b->at && a->ts == b->ts && a->event_row == b->event_row &&
	       a->frame == b->frame && a->gfp_flags == b->gfp_flags && a->pid == b->pid &&
	       a->cpu == b->cpu && a->kind == b->kind && a->order == b->order &&
	       a->migratetype == b->migratetype && a->fields == b->fields &&
	       a->below_high == b->below_high && a->high == b->high;
}

static void a_row_that_is_written_is_loaded_as_it_was(void)
{
	const struct inferred written[] = {
		{.at = 3,
		 .ts = 30,
		 .event_row = 9,
		 .frame = 18,
		 .gfp_flags = GFP_DMA | GFP_ZERO,
		 .pid = 5,
		 .kind = INFERRED_KIND_EARLY_ALLOC,
		 .order = 1,
		 .migratetype = MIGRATETYPE_RECLAIMABLE},
		{.at = 4,
		 .ts = 40,
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
	struct toy t;

	toy_new(&t, "6.18", (struct toy_geometry){4, 5, "MM", ZONE_DMA});
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
	inferred_free(&rows);
	output_free(out);
	toy_free(&t);
}

static void impossible_rows_are_refused_and_rows_before_the_start_skipped(void)
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
	struct toy t;

	toy_new(&t, "6.18", (struct toy_geometry){4, 5, "MM", ZONE_DMA});
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
	check(rows.nr == 1);
	inferred_free(&rows);
	batch_free(batch);
	toy_free(&t);
}

int main(void)
{
	test(a_row_that_is_written_is_loaded_as_it_was);
	test(impossible_rows_are_refused_and_rows_before_the_start_skipped);
	return check_done();
}

// SPDX-License-Identifier: Apache-2.0
/*
 * A free run as a whole: contradictions become anomalies, and the cut of a tape into batches
 * changes nothing. The machine is that of free_run.h.
 */
#include "check.h"
#include "free_run.h"

#include <string.h>

TEST(contradictions_are_counted_by_kind)
{
	const struct totals *totals;

	TAPE(t, tape_new, "6.18");
	tape_alloc(&t, 0, 1000, 0);
	tape_alloc(&t, 0, 1000, 0); /* its free is missing */
	tape_free_page(&t, 0, 1000, 0);
	tape_free_page(&t, 0, 1000, 0);
	tape_free_page(&t, 0, 700, 0);  /* free at the start, never allocated */
	tape_alloc(&t, 0, 10, 0);       /* used at the start, never freed */
	tape_alloc(&t, 0, 1 << 20, 0);  /* in no zone */
	tape_free_page(&t, 0, 8188, 3); /* runs past the end of its zone */
	tape_alloc(&t, 0, 1000, 11);
	tape_alloc(&t, 2, 1000, 0);
	tape_event(&t, 77, 0, 1000, 0);
	tape_free_page(&t, 0, -1, 0);
	tape_alloc(&t, 0, -1, 0); /* failed in the record */
	totals = tape_play(&t);
	check(totals->anomalies[ANOMALY_KIND_ALLOC_OF_USED] == 2);
	check(totals->anomalies[ANOMALY_KIND_FREE_OF_FREE] == 1);
	check(totals->anomalies[ANOMALY_KIND_FREE_UNKNOWN] == 1);
	check(totals->anomalies[ANOMALY_KIND_OUTSIDE_ZONES] == 2);
	check(totals->anomalies[ANOMALY_KIND_BAD_EVENT] == 4);
	check(tape_anomalies(totals) == 10);
	check(totals->recorded_failures == 1);
}

/* Random values in an event's columns. */
static void noise(struct tape *t, uint64_t *seed, int nr)
{
	struct event_columns *c = (struct event_columns *)t->events->slots;

	for (int n = 0; n < nr; n++) {
		uint32_t order = random_below(seed, 20);
		size_t i = t->events->nr;

		tape_event(t, (int)random_below(seed, 8), (int)random_below(seed, 3),
			   random_below(seed, 2 * ZONE_PAGES + 500) - 100,
			   order < 10   ? 0
			   : order < 19 ? (int)order - 9
					: 200);
		c->migratetype[i] = (uint8_t)random_below(seed, random_below(seed, 9) ? 3 : 256);
		c->gfp_flags[i] = random_below(seed, UINT32_MAX);
		if (!random_below(seed, 50))
			t->ts -= 500000;
		if (!random_below(seed, 50))
			t->ts += 3000000000;
	}
}

TEST(noise_makes_anomalies_and_nothing_worse)
{
	for (const struct kernel *k = kernels; k->name; k++) {
		uint64_t seed = 88172645463325252ull;
		const struct totals *totals;

		TAPE(t, tape_new, k->name);
		noise(&t, &seed, 20000);
		totals = tape_play(&t);
		check(totals->events == 20000);
		check(tape_anomalies(totals) > 0);
		while (replay_read(t.r))
			;
	}
}

/* A hash of all rows that the run wrote. */
static uint64_t fingerprint(struct replay *r)
{
	uint64_t hash = 14695981039346656037ull;
	struct batch *batch;

	while ((batch = replay_read(r))) {
		const struct table *table = batch->table;

		for (int c = 0; c < table->nr_columns; c++) {
			const struct column *column = &table->columns[c];
			const uint8_t *bytes = batch->slots[column->slot];
			const uint8_t *valid =
				column->nullable ? batch->slots[column->slot + 1] : NULL;

			for (size_t i = 0; i < batch->nr * column->width; i++)
				if (is_valid(valid, i / column->width))
					hash = (hash ^ bytes[i]) * 1099511628211ull;
		}
	}
	return hash;
}

TEST(the_cut_into_batches_does_not_matter)
{
	static const size_t cuts[] = {1 << 16, 1000, 64, 1};
	uint64_t first = 0;

	for (size_t n = 0; n < sizeof(cuts) / sizeof(cuts[0]); n++) {
		uint64_t seed = 88172645463325252ull, hash;
		struct error err = {""};
		struct event_columns all;

		TAPE(t, tape_new, "6.12.117");
		noise(&t, &seed, 6400);
		memcpy(&all, t.events->slots, sizeof(all));
		for (size_t at = 0; at < t.events->nr; at += cuts[n]) {
			size_t left = t.events->nr - at, nr = left < cuts[n] ? left : cuts[n];
			struct batch *piece = toy_rows(&event_table, nr);

			for (int c = 0; c < event_table.nr_columns; c++) {
				const struct column *column = &event_table.columns[c];
				const uint8_t *from = t.events->slots[column->slot];

				memcpy(piece->slots[column->slot], from + at * column->width,
				       nr * column->width);
				for (size_t i = 0; column->nullable && i < nr; i++)
					if (is_valid(t.events->slots[column->slot + 1], at + i))
						set_valid(piece->slots[column->slot + 1], i);
			}
			must(tape_hand_over(t.r, piece, true, &err), &err);
			batch_free(piece);
		}
		must(replay_finish(t.r, &err), &err);
		hash = fingerprint(t.r);
		if (!n)
			first = hash;
		check(hash == first);
	}
}

// SPDX-License-Identifier: Apache-2.0
/* The state that the recorder read before refills and drains, beside the same tape without it. */
#include "short_tape.h"
#include "model/vmstat_diff.h"
#include "tape/stamps.h"

#include <errno.h>

#define WITH(s)      .stamps = s, .nr_stamps = COUNT(s)
#define REFILL(...)  {.kind = STAMP_KIND_REFILL, __VA_ARGS__}
#define DRAINED(...) {.kind = STAMP_KIND_DRAIN, __VA_ARGS__}

static struct accuracy_count sizes_of_drains(const struct validate *v)
{
	return decision_count(v, DECISION_DRAIN_SIZE);
}

TEST(a_stamp_shows_that_reclaim_has_begun)
{
	static const struct chunk chunks[] = {{2048, 10, MOVABLE}};
	static const struct row events[] = {
		FREE(0, 512, 0, .run = 4),
		DRAIN(0, 512, 0, MOVABLE, .run = 3),
	};
	static const struct stamped stamps[] = {DRAINED(.at = 4, .count = 4, .high = 8,
							.high_min = 8, .high_max = 8, .batch = 1,
							.free_count = 4, .reclaim_active = true)};
	VALIDATE *v = VALIDATED(chunks, events);

	check(sizes_of_drains(v).nr == 1 && !sizes_of_drains(v).exact);
	validate_free(v);
	v = VALIDATED(chunks, events, WITH(stamps));
	check(sizes_of_drains(v).nr == 1 && sizes_of_drains(v).exact == 1);
	check(validate_model(v)->zones[0].reclaim_active);
}

/* Four pages are no more than six; with ZONE_BELOW_HIGH, three of them drain. */
TEST(a_drain_shows_a_flag_that_was_cleared_before_its_stamp)
{
	static const struct chunk chunks[] = {{2048, 10, MOVABLE}};
	static const struct row events[] = {
		FREE(0, 512, 0, .run = 4),
		DRAIN(0, 512, 0, MOVABLE, .run = 3),
	};
	static const struct stamped stamps[] = {DRAINED(.at = 4, .count = 4, .high = 6,
							.high_min = 2, .high_max = 12, .batch = 1,
							.free_count = 4)};
	VALIDATE *v = VALIDATED(chunks, events, WITH(stamps));

	check(all_exact(v, DECISION_DRAIN_SIZE, 1));
	check(!validate_model(v)->zones[0].below_high);
}

/* The refill of a list with batch 4, of twice that: alloc_factor was 1, and is 2 after it. */
TEST(a_stamp_shows_the_scale_of_a_refill)
{
	enum { SIZE = 8 };
	static const struct chunk chunks[] = {{2048, 10, MOVABLE}};
	static const struct stamped stamps[] = {REFILL(.at = 0, .high = 40, .high_min = 32,
						       .high_max = 80, .batch = 4,
						       .alloc_factor = 2)};
	struct row events[SIZE + 1];
	struct validate *v;

	for (uint64_t i = 0; i < SIZE; i++)
		events[i] = (struct row)ZONE_LOCKED(0, 2048 + i, 0, MOVABLE);
	events[SIZE] = (struct row)ALLOC(0, 2048, 0, MOVABLE);
	v = VALIDATED(chunks, events, .pcp_batch = 4, .pcp_high = 40);
	check(!decision_count(v, DECISION_REFILL_SIZE).exact);
	validate_free(v);
	v = VALIDATED(chunks, events, .pcp_batch = 4, .pcp_high = 40, WITH(stamps));
	check(all_exact(v, DECISION_REFILL_SIZE, 1));
	check(validate_model(v)->pcps[0].alloc_factor == 2);
	validate_free(v);
}

/* Two pages of one task, the second with a stamp: it begins a refill of its own. */
TEST(a_stamp_parts_refills)
{
	static const struct chunk chunks[] = {{2048, 10, MOVABLE}};
	static const struct row events[] = {
		FREE(1, 512, 0),
		ZONE_LOCKED(0, 2048, 0, MOVABLE),
		ZONE_LOCKED(0, 2049, 0, MOVABLE),
		ALLOC(0, 2049, 0, MOVABLE),
	};
	static const struct stamped stamps[] = {
		REFILL(.at = 1, .high = 8, .high_min = 8, .high_max = 8, .batch = 1),
		REFILL(.at = 2, .high = 8, .high_min = 8, .high_max = 8, .batch = 1),
	};
	VALIDATE *v = VALIDATED(chunks, events, WITH(stamps));

	check(all_exact(v, DECISION_REFILL_SIZE, 2));
}

/* Frees whose count is one below the model's, which has not seen an entry leave. */
TEST(a_list_with_fewer_pages_drains_as_much_later)
{
	enum { FREES = 9 };
	static const struct chunk chunks[] = {{2048, 10, MOVABLE}};
	static const struct stamped stamps[] = {DRAINED(.at = FREES, .count = 8, .high = 8,
							.high_min = 8, .high_max = 8, .batch = 1,
							.free_count = 9)};
	struct row events[2 * FREES + 14];
	struct validate *v;
	size_t nr = 0;

	for (uint64_t i = 0; i < FREES; i++)
		events[nr++] = (struct row)FREE(0, 512 + 2 * i, 0);
	for (uint64_t i = 1; i < 8; i++)
		events[nr++] = (struct row)DRAIN(0, 512 + 2 * i, 0, MOVABLE);
	v = validated(&(struct short_tape){.chunks = chunks,
					   .nr_chunks = 1,
					   .events = events,
					   .nr_events = nr,
					   .stamps = stamps,
					   .nr_stamps = 1});
	/* By the model's count the eighth free should have drained: the stamp shows why it did not.
	 */
	check(all_exact(v, DECISION_DRAIN_SIZE, 1));
	check(validate_model(v)->pcps[0].high == 8 && validate_model(v)->pcps[0].count == 1);
	validate_free(v);
}

/* The pages before that of an alloc were taken without an event, and are never freed. */
TEST(a_count_proves_that_pages_have_left_their_list)
{
	static const struct chunk chunks[] = {{2048, 10, MOVABLE}};
	static const struct row events[] = {
		FREE(0, 512, 0),
		FREE(0, 514, 0),
		FREE(0, 516, 0),
		ALLOC(0, 512, 0, MOVABLE),
		ZONE_LOCKED(0, 2048, 0, MOVABLE),
		ALLOC(0, 2048, 0, MOVABLE),
	};
	static const struct stamped agrees[] = {
		REFILL(.at = 4, .high = 8, .high_min = 8, .high_max = 8, .batch = 1)};
	static const struct stamped differs[] = {
		REFILL(.at = 4, .count = 2, .high = 8, .high_min = 8, .high_max = 8, .batch = 1)};
	VALIDATE *v = VALIDATED(chunks, events);
	VALIDATE *agreed = VALIDATED(chunks, events, WITH(agrees));
	VALIDATE *differed = VALIDATED(chunks, events, WITH(differs));

	check(decision_count(v, DECISION_ALLOC).nr == 2 &&
	      decision_count(v, DECISION_ALLOC).exact == 1);
	check(all_exact(agreed, DECISION_ALLOC, 2));
	check(validate_totals(agreed)->alloc_inferred == 1 && !validate_divergence(agreed)->known);
	check(decision_count(differed, DECISION_ALLOC).exact == 1);
}

/* Two drains of one task: of the other CPU's PCP, whose page nothing has shown, and of its own. */
TEST(stamps_part_the_drains_of_two_cpus)
{
	static const struct chunk chunks[] = {{2048, 0, MOVABLE}};
	static const struct row events[] = {
		FREE(0, 512, 0),           FREE(1, 1024, 0),           DRAIN(1, 2048, 0, MOVABLE),
		DRAIN(1, 512, 0, MOVABLE), DRAIN(1, 1024, 0, MOVABLE),
	};
	static const struct stamped stamps[] = {
		{.kind = STAMP_KIND_REMOTE_DRAIN, .at = 2, .cpu = 1},
		DRAINED(.at = 4, .cpu = 1, .count = 1, .high = 8, .high_min = 8, .high_max = 8,
			.batch = 1)};
	VALIDATE *v = VALIDATED(chunks, events, WITH(stamps));

	check(validate_model(v)->pcps[0].count == 0 && validate_model(v)->pcps[1].count == 0);
	check(decision_count(v, DECISION_DRAIN).exact == 2);
}

static const struct chunk one_block[] = {{2048, 10, MOVABLE}};
static const struct row two_refills[] = {
	ZONE_LOCKED(0, 2048, 0, MOVABLE),
	ALLOC(0, 2048, 0, MOVABLE),
	ZONE_LOCKED(0, 2049, 0, MOVABLE),
	ALLOC(0, 2049, 0, MOVABLE),
};

/* The tape of the first `nr` of these events. */
static struct validate *refilled(size_t nr, uint32_t threshold, const struct stamped stamps[2])
{
	return validated(&(struct short_tape){
		.chunks = one_block,
		.nr_chunks = 1,
		.events = two_refills,
		.nr_events = nr,
		.threshold = threshold,
		.stamps = stamps,
		.nr_stamps = 2,
	});
}

/*
 * The counter has five pages more than the lists: this CPU's difference is -4, so the other's is
 * -1. The second page moves this CPU's to the counter, as the model expects.
 */
TEST(a_stamp_shows_the_counter_of_free_pages_and_the_share_of_its_cpu)
{
	static const struct stamped stamps[] = {
		REFILL(.at = 0, .high = 8, .high_min = 8, .high_max = 8, .batch = 1, .free = 1028,
		       .vm_stat_diff = -4),
		REFILL(.at = 2, .high = 8, .high_min = 8, .high_max = 8, .batch = 1, .free = 1023),
	};
	VALIDATE *v = refilled(2, 4, stamps);
	const struct model *m = validate_model(v);

	check(zone_listed_free(m->zones) == 1028);
	check(m->pcps[0].vmstat_diff == -4 && m->pcps[1].vmstat_diff == -1);
	validate_free(v);
	v = refilled(4, 4, stamps);
	m = validate_model(v);
	check(zone_listed_free(m->zones) == 1023);
	check(m->pcps[0].vmstat_diff == 0 && m->pcps[1].vmstat_diff == -1);
}

TEST(a_stamp_shows_the_boost)
{
	static const struct stamped stamps[] = {
		REFILL(.at = 0, .high = 8, .high_min = 8, .high_max = 8, .batch = 1, .boost = 40),
		REFILL(.at = 2, .high = 8, .high_min = 8, .high_max = 8, .batch = 1),
	};
	VALIDATE *v = refilled(2, 0, stamps);
	struct found_rows found;
	size_t nr = 0;

	check(validate_model(v)->zones[0].boost == 40);
	validate_free(v);
	v = refilled(4, 0, stamps);
	check(!validate_model(v)->zones[0].boost);
	found = inferred_rows(v);
	while (nr < found.nr && found.rows[nr].kind != INFERRED_KIND_UNBOOSTED)
		nr++;
	check(nr < found.nr && found.rows[nr].at == 2);
}

TEST(rows_out_of_order_are_refused)
{
	static const struct stamped stamps[] = {DRAINED(.at = 2), DRAINED(.at = 1)};
	struct stamps loaded = {0};
	const struct chunk chunks[] = {{2048, 10, MOVABLE}};
	const struct row events[] = {FREE(0, 512, 0)};
	VALIDATE *v = VALIDATED(chunks, events);
	uint64_t at[] = {stamps[0].at, stamps[1].at};
	uint16_t zeros[2] = {0};
	uint8_t kinds[2] = {STAMP_KIND_DRAIN, STAMP_KIND_DRAIN}, zones[2] = {ZONE_DMA, ZONE_DMA};
	uint32_t numbers[2] = {0};
	int8_t differences[2] = {0};
	int64_t free[2] = {0};
	uint8_t none[1] = {0};
	const struct stamp_columns columns = {
		.cpu = zeros,
		.at = at,
		.kind = kinds,
		.node = zeros,
		.zone = zones,
		.count = numbers,
		.count_valid = none,
		.high = numbers,
		.high_valid = none,
		.high_min = numbers,
		.high_min_valid = none,
		.high_max = numbers,
		.high_max_valid = none,
		.batch = numbers,
		.batch_valid = none,
		.free_count = zeros,
		.free_count_valid = none,
		.free_factor = zeros,
		.free_factor_valid = none,
		.alloc_factor = kinds,
		.alloc_factor_valid = none,
		.below_high = kinds,
		.below_high_valid = none,
		.reclaim_active = kinds,
		.free = free,
		.vm_stat_diff = differences,
		.boost = numbers,
	};
	struct error err;

	check(stamps_load(&loaded, validate_model(v), &columns, 2, 0, &err) == -EINVAL);
}

TEST(a_stamp_shows_the_list_that_compaction_turned)
{
	static const struct chunk chunks[] = {
		{0, 4, MOVABLE}, {2048, 4, MOVABLE}, {512, 4, MOVABLE}};
	static const struct row events[] = {
		ZONE_LOCKED(0, 2048, 4, MOVABLE), ALLOC(0, 2048, 4, MOVABLE),
		ZONE_LOCKED(0, 512, 4, MOVABLE),  ALLOC(0, 512, 4, MOVABLE),
		ZONE_LOCKED(0, 0, 4, MOVABLE),    ALLOC(0, 0, 4, MOVABLE),
	};
	VALIDATE *v = VALIDATED(chunks, events);

	check(decision_count(v, DECISION_ALLOC).nr == 3);
	check(!decision_count(v, DECISION_ALLOC).unknown);
	check(decision_count(v, DECISION_ALLOC).exact == 2);
	validate_free(v);
	v = VALIDATED(chunks, events, .head = 2048);
	check(all_exact(v, DECISION_ALLOC, 3) &&
	      inferred_rows(v).rows[0].kind == INFERRED_KIND_CUT);
	validate_free(v);
	v = VALIDATED(chunks, events, .head = 528); /* not free in the model */
	check(decision_count(v, DECISION_ALLOC).exact == 2);
}

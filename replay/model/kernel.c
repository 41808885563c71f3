// SPDX-License-Identifier: Apache-2.0
#include "kernel.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/*
 * A row builds on the row before it and lists only its changes. Of two designated initializers of a
 * field, the last one counts.
 */
#define KERNEL_2_6_31                                                                              \
	.pcp_lists = PCP_LISTS_1, .drain_rule = DRAIN_TAIL_OF_ONE,                                 \
	.drained_type = DRAINED_RECORDED, .reclaimable_first = true, .merge = MERGE_ANY,           \
	.fallback = FALLBACK_REMAINDERS_OLD, .reserve_blocks = true, .refill_as_asked = true,      \
	.small_batch = true, .cold_pages = true, .pcp_tuning = PCP_FIXED,                          \
	.zone_locked = ZONE_LOCKED_ALWAYS, .watermark = WATERMARK_PER_ORDER

#define KERNEL_2_6_32                                                                              \
	KERNEL_2_6_31, .pcp_lists = PCP_LISTS_3, .drain_rule = DRAIN_ROUND_ROBIN,                  \
		.drained_type = DRAINED_INDEX, .retype_whole_chunk = true

#define KERNEL_4_20                                                                                \
	KERNEL_2_6_32, .drain_rule = DRAIN_ROUND_ROBIN_ALL, .drained_type = DRAINED_RECORDED,      \
		.reclaimable_first = false, .merge = MERGE_ISOLATE_APART,                          \
		.tail_on_likely_merge = true, .fallback = FALLBACK_MOVE,                           \
		.fallback_claims_unmovable = true, .reserve_blocks = false,                        \
		.refill_as_asked = false, .small_batch = false, .cold_pages = false,               \
		.watermark = WATERMARK_HARDER, .highatomic = HIGHATOMIC_PERCENT_MORE,              \
		.kswapd_sleep = KSWAPD_KEEPAWAKE, .highatomic_refills = true,                      \
		.kcompactd_by_callers = true, .compacts = true

#define KERNEL_5_0                                                                                 \
	KERNEL_4_20, .nofragment = NOFRAGMENT_NEVER_SET, .nofragment_any_order = true,             \
		.boost = BOOST_ANY_ZONE, .boost_wakes_all = true

#define KERNEL_5_10                                                                                \
	KERNEL_5_0, .move_block_to_tail = true, .nofragment = NOFRAGMENT_LOWZONE,                  \
		.boost = BOOST_LARGE_ZONE, .unboosted_right = UNBOOSTED_ATOMIC,                    \
		.fast_counts_highatomic = true, .cma_balance = true,                               \
		.zone_locked = ZONE_LOCKED_WITH_PAGE, .capture = CAPTURE_SILENT,                   \
		.proactive = PROACTIVE_FROM_5, .proactive_weighed = true

#define KERNEL_5_14                                                                                \
	KERNEL_5_10, .pcp_lists = PCP_LISTS_15, .pcp_tuning = PCP_FREE_FACTOR,                     \
		.nofragment_any_order = false, .proactive_weighed = false,                         \
		.proactive_pauses = true

#define KERNEL_5_19                                                                                \
	KERNEL_5_14, .drain_rule = DRAIN_FROM_INDEX, .merge = MERGE_MERGEABLE,                     \
		.free_high = FREE_HIGH_FACTOR, .zone_locked = ZONE_LOCKED_LIST,                    \
		.percpu_refill = true

#define KERNEL_6_1_0                                                                               \
	KERNEL_5_19, .pcp_lists = PCP_LISTS_13, .pcp_miss_to_buddy = true, .drain_all_remote = true

#define KERNEL_6_5                                                                                 \
	KERNEL_6_1_0, .watermark = WATERMARK_GRADED, .boost_wakes_all = false,                     \
		.unboosted_right = UNBOOSTED_HIGH, .node_reclaim_whole = true

#define KERNEL_6_1_192                                                                             \
	KERNEL_6_5, .pcp_lists = PCP_LISTS_14, .free_factor_max = 5, .highatomic_last = true,      \
		.highatomic_needs_high = true, .drain_all_pieces = true, .pcp_scale_max = 5,       \
		.boost_wakes_all = true, .unboosted_right = UNBOOSTED_ATOMIC,                      \
		.node_reclaim_whole = false

#define KERNEL_6_8                                                                                 \
	KERNEL_6_5, .pcp_tuning = PCP_AUTO, .pcp_scale_max = 5, .free_high = FREE_HIGH_BATCH,      \
		.highatomic = HIGHATOMIC_PERCENT, .below_high = true, .decay = DECAY_AT_ONCE

#define KERNEL_6_12_19                                                                             \
	KERNEL_6_8, .pcp_lists = PCP_LISTS_14, .drained_type = DRAINED_BLOCK,                      \
		.merge = MERGE_RETYPE_FIRST, .free_by_block = true,                                \
		.fallback = FALLBACK_CLAIM_OR_SPLIT, .watermark = WATERMARK_GRADED_FREE,           \
		.highatomic_last = true, .highatomic_whole_chunk = true, .drain_all_pieces = true, \
		.counts_each_page = true, .capture_movable = true, .compact_folios = true

#define KERNEL_6_12_117                                                                            \
	KERNEL_6_12_19, .merge = MERGE_RETYPE, .fallback = FALLBACK_CLAIM_THEN_STEAL,              \
		.highatomic_needs_high = true, .decay = DECAY_PIECES,                              \
		.boost_trigger = BOOST_CLAIM_ATTEMPT

#define KERNEL_6_17                                                                                \
	KERNEL_6_12_117, .free_high = FREE_HIGH_HALF_MIN, .decay = DECAY_AT_ONCE,                  \
		.capture = CAPTURE_TRACED, .proactive = PROACTIVE_LEEWAY, .compact_own_gap = true, \
		.compact_ready_high = true

#define KERNEL_6_18 KERNEL_6_17, .decay = DECAY_PIECES, .skip_awake_nodes = true

#define KERNEL_6_19 KERNEL_6_18, .overflow_pieces = true

#define KERNEL_7_0 KERNEL_6_19, .kswapd_hopeless = KSWAPD_HOPELESS_BALANCED, .compact_turn = true

#define KERNEL_7_1                                                                                 \
	KERNEL_7_0, .highatomic_reserve = HIGHATOMIC_RESERVE_BUDDY, .highatomic_refills = false

#define KERNEL_7_2                                                                                 \
	KERNEL_7_1, .coalesced_frees = true, .compact_gap_max = 32,                                \
		.kswapd_hopeless = KSWAPD_HOPELESS_BOOSTLESS,                                      \
		.defrag_promotes = DEFRAG_PROMOTES_WORK, .compact_cma_right = true

#define KERNEL_7_3                                                                                 \
	KERNEL_7_2, .highatomic_reserve = HIGHATOMIC_RESERVE_BUDDY_MIN, .highatomic_first = true,  \
		.defrag_promotes = DEFRAG_PROMOTES_TURNS

/* Oldest first. */
#define FOR_EACH_ROW(X)                                                                            \
	X("2.6.31", "One mixed PCP list, MIGRATE_RESERVE; no allocator events yet.",               \
	  KERNEL_2_6_31)                                                                           \
	X("2.6.32", "PCP lists by migratetype; a drain frees to the type of the list.",            \
	  KERNEL_2_6_32)                                                                           \
	X("2.6.33", "A drain frees to the page's own type: MIGRATE_RESERVE no longer leaks.",      \
	  KERNEL_2_6_32, .drained_type = DRAINED_RECORDED)                                         \
	X("4.20", "The last kernel before fragmentation avoidance v5.", KERNEL_4_20)               \
	X("5.0", "Watermark boosting; ALLOC_NOFRAGMENT is tested but, by a slip, never set.",      \
	  KERNEL_5_0)                                                                              \
	X("5.10", "ALLOC_NOFRAGMENT works; moved pages go to the tail.", KERNEL_5_10)              \
	X("5.14", "Orders up to 3 and THP in the PCP, free_factor.", KERNEL_5_14)                  \
	X("5.19", "Drains begin at the list just pushed to.", KERNEL_5_19)                         \
	X("6.1.0", "An empty PCP no longer fails the request.", KERNEL_6_1_0)                      \
	X("6.1.192", "6.1 with its stable backports: graded reserves, MOVABLE THP list.",          \
	  KERNEL_6_1_192)                                                                          \
	X("6.5", "Graded reserves.", KERNEL_6_5)                                                   \
	X("6.8", "PCP auto-tuning (merged in 6.7).", KERNEL_6_8)                                   \
	X("6.12.19", "Free lists keep to their pageblock's type (merged in 6.10); also 6.13.",     \
	  KERNEL_6_12_19)                                                                          \
	X("6.14", "The allocator of 6.12.19.", KERNEL_6_12_19)                                     \
	X("6.12.117", "6.12 with its stable backports: claim, then steal.", KERNEL_6_12_117)       \
	X("6.17", "Claim, then steal (merged in 6.15); decay at once.", KERNEL_6_17)               \
	X("6.18", "Claim, then steal; decay in pieces.", KERNEL_6_18)                              \
	X("6.19", "An overflowing PCP drains in pieces of batch.", KERNEL_6_19)                    \
	X("7.0", "A hopeless kswapd starts again when its node is balanced.", KERNEL_7_0)          \
	X("7.1", "Only the buddy serves the right to the HIGHATOMIC reserve.", KERNEL_7_1)         \
	X("7.2", "Contiguous pages that are freed together are freed as blocks.", KERNEL_7_2)      \
	X("7.3", "The first scan may take from the HIGHATOMIC reserve.", KERNEL_7_3)

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
#define ROW(row, sentence, ...) {.name = row, .doc = sentence, __VA_ARGS__},
const struct kernel kernels[] = {FOR_EACH_ROW(ROW){0}};
#undef ROW
#pragma GCC diagnostic pop
_Static_assert(sizeof(kernels) / sizeof(kernels[0]) == NR_KERNELS + 1, "NR_KERNELS is wrong");

#define NAME(row, sentence, ...) row,
const char *const kernel_names[] = {FOR_EACH_ROW(NAME) NULL};
#undef NAME

#define WORD(constant, word)  word,
#define SPELT(constant, word) #constant,
#define NUMBER(X)
#define WORDS(feature, LIST, sentence)                                                             \
	static const char *const feature##_words[] = {LIST(WORD) NULL};                            \
	static const char *const feature##_constants[] = {LIST(SPELT) NULL};
FOR_EACH_FEATURE(WORDS)
#undef WORDS

const struct feature features[] = {
#define DESCRIBE(feature, LIST, sentence)                                                          \
	{#feature, sentence, offsetof(struct kernel, feature), feature##_words,                    \
	 feature##_constants},
	FOR_EACH_FEATURE(DESCRIBE)
#undef DESCRIBE
		{0},
};

/*
 * The first release that each row describes. Claim-then-steal came to the stable trees with 6.12.29
 * and 6.14.7 (May 2025). The release of 6.1.y that took the backports is unknown: the row changes
 * halfway between 6.1.0 and 6.1.192. The sources of 2.6.34 to 4.3 and of 4.4 to 4.19 were not read;
 * these releases use the nearest row. compact_own_gap and compact_ready_high have the date of
 * their patches: 6.12.117 lacks them, 7.2 has them. Of 6.19, 7.0 and 7.1 only the functions and
 * types in the images were seen. Where these do not date a change between 6.18 and 7.2, the row has
 * the date of the patch (compact_turn, highatomic_reserve, highatomic_refills), or else 7.2 has the
 * change (compact_gap_max, compact_cma_right).
 */
static const struct {
	int release[3];
	const char *kernel;
} eras[] = {
	{{2, 6, 31}, "2.6.31"},   {{2, 6, 32}, "2.6.32"},    {{2, 6, 33}, "2.6.33"},
	{{4, 4, 0}, "4.20"},      {{5, 0, 0}, "5.0"},        {{5, 1, 0}, "5.10"},
	{{5, 13, 0}, "5.14"},     {{5, 18, 0}, "5.19"},      {{6, 0, 0}, "6.1.0"},
	{{6, 1, 96}, "6.1.192"},  {{6, 2, 0}, "6.5"},        {{6, 7, 0}, "6.8"},
	{{6, 10, 0}, "6.12.19"},  {{6, 12, 29}, "6.12.117"}, {{6, 13, 0}, "6.14"},
	{{6, 14, 7}, "6.12.117"}, {{6, 15, 0}, "6.17"},      {{6, 18, 0}, "6.18"},
	{{6, 19, 0}, "6.19"},     {{7, 0, 0}, "7.0"},        {{7, 1, 0}, "7.1"},
	{{7, 2, 0}, "7.2"},       {{7, 3, 0}, "7.3"},
};

static int no_kernel(struct error *err, const char *what, const char *name)
{
	char names[512] = "";
	size_t used = 0;

	for (const struct kernel *k = kernels; k->name && used < sizeof(names); k++)
		used += (size_t)snprintf(names + used, sizeof(names) - used, " %s", k->name);
	return fail(err, ENOENT, "%s '%.64s' has no row; there are:%s", what, name, names);
}

int kernel_find(const struct kernel **out, const char *name, struct error *err)
{
	for (const struct kernel *k = kernels; k->name; k++) {
		if (!strcmp(k->name, name)) {
			*out = k;
			return 0;
		}
	}
	return no_kernel(err, "kernel", name);
}

bool kernel_rules_same(const struct kernel *one, const struct kernel *other)
{
#define SAME(feature, values, sentence) &&one->feature == other->feature
	return true FOR_EACH_FEATURE(SAME);
#undef SAME
}

bool kernel_reclaim_same(const struct kernel *one, const struct kernel *other)
{
#define SAME(feature) &&one->feature == other->feature
	return true FOR_EACH_RECLAIM_FEATURE(SAME);
#undef SAME
}

static int compare(const int a[3], const int b[3])
{
	for (int i = 0; i < 3; i++)
		if (a[i] != b[i])
			return a[i] - b[i];
	return 0;
}

int kernel_for_release(const struct kernel **out, const char *release, struct error *err)
{
	const char *name = NULL;
	int r[3] = {0};

	if (sscanf(release, "%5d.%5d.%5d", &r[0], &r[1], &r[2]) < 2)
		return no_kernel(err, "release", release);
	for (size_t i = 0; i < sizeof(eras) / sizeof(eras[0]); i++)
		if (compare(eras[i].release, r) <= 0)
			name = eras[i].kernel;
	if (!name)
		return no_kernel(err, "release", release);
	return kernel_find(out, name, err);
}

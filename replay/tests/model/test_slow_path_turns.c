// SPDX-License-Identifier: Apache-2.0
/* The turns of a request that finds no page, and what they do to the HIGHATOMIC reserve. */
#include "check.h"
#include "model/reclaim_ops.h"
#include "slow_path_vectors.h"
#include "toy.h"

#include <stdio.h>
#include <string.h>

/* Reclaim and compaction that answer by a script, and note the steps. */
struct script {
	const char *reclaims, *compactions;
	int order; /* of the request */
	char steps[4096];
};

static void note(struct script *s, const char *step, int number, int order)
{
	size_t length = strlen(s->steps);
	char text[32] = "", at[16] = "";

	if (number >= 0)
		snprintf(text, sizeof(text), "%d", number);
	if (order != s->order)
		snprintf(at, sizeof(at), "@%d", order);
	snprintf(s->steps + length, sizeof(s->steps) - length, "%s%s%s%s", length ? " " : "", step,
		 text, at);
}

/* The next letter of a script; the last one repeats. */
static char next_of(const char **letters)
{
	return (*letters)[1] ? *(*letters)++ : **letters;
}

static void wake_all(void *self, const struct zonelist *list, const struct request *rq)
{
	(void)list;
	note(self, "w", -1, rq->order);
}

static bool direct(void *self, const struct zonelist *list, const struct request *rq, int order)
{
	struct script *s = self;

	(void)list;
	(void)rq;
	note(s, "r", -1, order);
	return next_of(&s->reclaims) == '1';
}

static uint64_t reclaimable(void *self, const struct zone *zone)
{
	(void)self;
	(void)zone;
	return 1 << 20;
}

static int take_tries(void *self, int order)
{
	(void)self;
	(void)order;
	return 0;
}

static enum compact_result compact(void *self, const struct zonelist *list,
				   const struct request *rq, int order, int priority)
{
	struct script *s = self;

	(void)list;
	(void)rq;
	note(s, "c", priority, order);
	switch (next_of(&s->compactions)) {
	case 'K':
		return COMPACT_SKIPPED;
	case 'D':
		return COMPACT_DEFERRED;
	case 'S':
		return COMPACT_SUCCESS;
	default:
		return COMPACT_COMPLETE;
	}
}

static bool stalled(void *self)
{
	(void)self;
	return false;
}

static const struct reclaim_ops scripted = {
	.wake_all = wake_all,
	.direct = direct,
	.reclaimable = reclaimable,
	.take_tries = take_tries,
	.compact = compact,
	.stalled = stalled,
};

static uint32_t gfp_of(const char *letters)
{
	static const struct {
		char letter;
		uint32_t flag;
	} flags[] = {
		{'D', GFP_DIRECT_RECLAIM}, {'K', GFP_KSWAPD_RECLAIM}, {'I', GFP_IO},
		{'N', GFP_NORETRY},        {'M', GFP_RETRY_MAYFAIL},  {'T', GFP_THISNODE},
	};
	uint32_t gfp = 0;

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if (strchr(letters, flags[i].letter))
			gfp |= flags[i].flag;
	return gfp;
}

struct vector {
	const char *kernel;
	int order;
	char type;
	const char *gfp;
	bool defrag_mode;
	const char *reclaims, *compactions, *steps;
};

TEST(a_request_takes_the_turns_of_its_kernel)
{
#define VECTOR(...) {__VA_ARGS__},
	static const struct vector vectors[] = {FOR_EACH_SLOW_PATH(VECTOR)};
#undef VECTOR

	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		const struct vector *v = &vectors[i];
		struct script script = {v->reclaims, v->compactions, v->order, ""};
		struct reclaim_ops ops = scripted;

		TOY(t, toy_new_under, v->kernel, v->defrag_mode ? "mainline:defrag_mode=1" : NULL,
		    toy_small("MMMM"));
		ops.self = &script;
		t.m->reclaim_ops = &ops;
		t.gfp_flags = gfp_of(v->gfp);
		check(toy_alloc(&t, v->order, v->type) == UINT64_MAX);
		check_text(script.steps, v->steps);
	}
}

/* Reclaim that always leaves the zone to compaction, and compaction that is always deferred. */
TEST(turns_for_a_pageblock_end_with_a_mixed_one)
{
	char reclaims[259] = "", *step;
	struct script script = {reclaims, "D", 0, ""};
	struct reclaim_ops ops = scripted;
	int whole = 0, own = 0;

	memset(reclaims, '1', 257);
	reclaims[257] = '0';
	TOY(t, toy_new_under, "7.2", "mainline:defrag_mode=1", toy_small("MMMM"));
	ops.self = &script;
	t.m->reclaim_ops = &ops;
	t.gfp_flags = gfp_of("DKI");
	check(toy_alloc(&t, 0, 'U') == UINT64_MAX);
	for (step = strchr(script.steps, 'r'); step; step = strchr(step + 1, 'r'))
		*(step[1] == '@' ? &whole : &own) += 1;
	check(whole == 257);
	check(own == 1);
}

/* Two reserved blocks, and a free chunk in each. A request that finds no other page. */
TEST(reclaim_releases_one_reserved_block_and_its_end_releases_the_others)
{
	static const struct {
		const char *gfp, *reclaims, *blocks;
	} cases[] = {{"DKIN", "0", "MHHM"}, {"DKIN", "1", "MMHM"}, {"DKI", "0", "MMMM"}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct script script = {cases[i].reclaims, "C", 3, ""};
		struct reclaim_ops ops = scripted;
		struct request rq = {
			.gfp_flags = gfp_of(cases[i].gfp),
			.order = 3,
			.migratetype = MIGRATETYPE_MOVABLE,
			.class_zone = ZONE_DMA32,
			.makes_room = true, /* no grant after the last turn */
		};

		TOY(t, toy_new, "6.12.117", (struct toy_geometry){4, 5, "MHHM", ZONE_DMA32});
		ops.self = &script;
		t.m->reclaim_ops = &ops;
		toy_add_free(&t, 16, 2, 'H');
		toy_add_free(&t, 32, 2, 'H');
		t.zone->nr_reserved_highatomic = 32;
		check(zone_alloc(t.m, &rq) == NO_FRAME);
		check_text(toy_blocks(&t), cases[i].blocks);
	}
}

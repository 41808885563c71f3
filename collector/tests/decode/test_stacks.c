// SPDX-License-Identifier: Apache-2.0
#include "check.h"
#include "decode/stacks.h"

TEST(equal_stacks_have_one_number)
{
	const uint64_t a[] = {1, 2, 3}, b[] = {1, 2, 4};
	struct stacks *stacks = stacks_new();

	check(stacks_add(stacks, a, 3) == 0);
	check(stacks_add(stacks, b, 3) == 1);
	check(stacks_add(stacks, a, 2) == 2);
	check(stacks_add(stacks, a, 3) == 0 && stacks_add(stacks, b, 2) == 2);
	stacks_free(stacks);
}

TEST(a_stack_comes_back_as_it_was)
{
	const uint64_t a[] = {UINT64_MAX, 0, 5};
	struct stacks *stacks = stacks_new();
	uint64_t out[STACK_FRAMES];

	check(stacks_get(stacks, 0, out) == -1);
	stacks_add(stacks, a, 3);
	check(stacks_get(stacks, 0, out) == 3);
	check(out[0] == UINT64_MAX && out[1] == 0 && out[2] == 5);
	check(stacks_get(stacks, 1, out) == -1);
	stacks_free(stacks);
}

TEST(a_deep_stack_keeps_its_innermost_frames)
{
	uint64_t deep[2 * STACK_FRAMES], out[STACK_FRAMES];
	struct stacks *stacks = stacks_new();

	for (int i = 0; i < 2 * STACK_FRAMES; i++)
		deep[i] = (uint64_t)i;
	check(stacks_add(stacks, deep, 2 * STACK_FRAMES) == 0);
	check(stacks_get(stacks, 0, out) == STACK_FRAMES);
	check(out[0] == 0 && out[STACK_FRAMES - 1] == STACK_FRAMES - 1);
	stacks_free(stacks);
}

TEST(an_empty_stack_has_no_number)
{
	const uint64_t none[] = {0};
	struct stacks *stacks = stacks_new();

	check(stacks_add(stacks, none, 0) == STACK_UNKNOWN);
	check(stacks_add(stacks, none, -1) == STACK_UNKNOWN);
	stacks_free(stacks);
}

TEST(past_the_last_number_new_stacks_have_none)
{
	struct stacks *stacks = stacks_new();

	for (uint64_t i = 0; i < MAX_STACKS; i++)
		check(stacks_add(stacks, &i, 1) == i);
	check(stacks_add(stacks, &(uint64_t){MAX_STACKS}, 1) == STACK_UNKNOWN);
	check(stacks_add(stacks, &(uint64_t){7}, 1) == 7);
	stacks_free(stacks);
}

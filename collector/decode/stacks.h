/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stacks.h - the different kernel stacks of a recording, numbered from 0.
 *
 * Events share few different stacks, so a row holds only the number. The decoder's thread adds
 * stacks; any thread may read them. Memory grows only with different stacks, at most 65536.
 */
#pragma once

#include <stdint.h>

enum {
	STACK_FRAMES = 128, /* most frames stored of one stack, the innermost ones */
	MAX_STACKS = 1 << 16,
};

#define STACK_UNKNOWN UINT32_MAX

struct stacks;

/* NULL: no memory. */
struct stacks *stacks_new(void);
void stacks_free(struct stacks *stacks);

/* The number of a stack of `nr` addresses, innermost first; STACK_UNKNOWN without room. */
uint32_t stacks_add(struct stacks *stacks, const uint64_t *frames, int nr);

/*
 * Copy the frames of stack `number` into `frames` and return their number; -1 if no such stack
 * exists (yet).
 */
int stacks_get(struct stacks *stacks, uint32_t number, uint64_t frames[STACK_FRAMES]);

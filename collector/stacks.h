/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stacks.h - the different kernel stacks of a recording, numbered from 0.
 *
 * Few different stacks lead to an event, so its row holds only the number. The decoder's
 * thread adds stacks; any thread may get them. Memory grows with different stacks only, up
 * to 65536 of them.
 */
#pragma once

#include <stddef.h>
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

/* The number of this stack of `nr` addresses, innermost first; STACK_UNKNOWN if there is no room.
 */
uint32_t stacks_add(struct stacks *stacks, const uint64_t *frames, int nr);

/* Frames of stack `number` into `frames`, and how many; -1 if there is no such stack (yet). */
int stacks_get(struct stacks *stacks, uint32_t number, uint64_t frames[STACK_FRAMES]);

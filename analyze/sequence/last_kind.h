/* SPDX-License-Identifier: Apache-2.0 */
/* last_kind.h - what the last event of each block did, by its first page and order. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum last_kind {
	LAST_NONE,
	LAST_LISTED, /* on a per-CPU list at the start, without an event */
	LAST_ALLOC,
	LAST_FREE,
	LAST_TAKEN, /* alloc_zone_locked or alloc_extfrag */
	LAST_DRAIN,
};

struct last_kinds;

/* NULL without memory. `most`: bytes. */
struct last_kinds *last_kinds_new(size_t most);
void last_kinds_free(struct last_kinds *k);

/* Note what the block does; the enum last_kind before, or -ENOMEM beyond `most`. order < 32. */
int last_kinds_put(struct last_kinds *k, uint64_t pfn, uint8_t order, enum last_kind now);

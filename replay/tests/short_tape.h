/* SPDX-License-Identifier: Apache-2.0 */
/*
 * short_tape.h - a few events written by hand, as validate finds them.
 *
 * Two nodes with a CPU each, or one with both; the first has a zone of 8 MOVABLE pageblocks of
 * 512 pages, of which all but the given chunks is used, the second has no memory. The kernel is
 * 6.18. A PCP is empty at first, of batch 1 and high 8; the events are 1 us apart.
 */
#pragma once

#include "check.h"
#include "validate/validate.h"

#define UNMOVABLE MIGRATETYPE_UNMOVABLE
#define MOVABLE   MIGRATETYPE_MOVABLE

struct chunk {
	uint64_t pfn;
	uint8_t order, migratetype;
};

struct row {
	uint8_t cpu, kind, flags;
	uint64_t pfn;
	uint8_t order, migratetype;
	/* of alloc_extfrag */
	uint8_t fallback_order, fallback_migratetype;
	bool owner;
	bool worker; /* of the task whose ticks the tape has */
};

/* The tells of each event as toy.h writes them, after the CPU. */
#define PAGE(c, event, ...)  {.cpu = c, .kind = EVENT_KIND_##event, __VA_ARGS__}
#define ALLOC(c, p, o, type) PAGE(c, ALLOC, .pfn = p, .order = o, .migratetype = type)
#define FREE(c, p, o)        PAGE(c, FREE, .pfn = p, .order = o)
#define FREE_IN_SOFTIRQ(c, p, o)                                                                   \
	PAGE(c, FREE, .pfn = p, .order = o, .flags = CONTEXT_SOFTIRQ | CONTEXT_PREEMPT_OFF)
#define DRAIN(c, p, o, type) PAGE(c, PCPU_DRAIN, .pfn = p, .order = o, .migratetype = type)
#define WORKER_DRAIN(c, p, o, type)                                                                \
	PAGE(c, PCPU_DRAIN, .pfn = p, .order = o, .migratetype = type, .worker = true)
#define ZONE_LOCKED(c, p, o, type)                                                                 \
	PAGE(c, ALLOC_ZONE_LOCKED, .pfn = p, .order = o, .migratetype = type)
#define EXTFRAG(c, p, o, from, type, old, own)                                                     \
	PAGE(c, ALLOC_EXTFRAG, .pfn = p, .order = o, .migratetype = type, .fallback_order = from,  \
	     .fallback_migratetype = old, .owner = own)

struct short_tape {
	const struct chunk *chunks; /* free ones, head first */
	size_t nr_chunks;
	const struct row *events;
	size_t nr_events;
	int pcp_batch;        /* not 0: of PCPs with a high of eight batches, untuned */
	int pcp_high;         /* not 0: the high of those, tuned from there, up to twice as much */
	uint64_t migrates_at; /* not 0: from that event on to 16 pages from that pfn on, isolated */
	uint64_t target;
	uint64_t tick_at; /* not 0: before that event, another task's vmstat tick on CPU 1 */
	size_t nr_ticks;  /* so many there; 0: one */
	bool remote;      /* CPU 1 is of the second node */
};

/* What such a tape is found to be. */
struct validate *validated(const struct short_tape *tape);
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define VALIDATED(c, e, ...)                                                                       \
	validated(&(struct short_tape){.chunks = c,                                                \
				       .nr_chunks = COUNT(c),                                      \
				       .events = e,                                                \
				       .nr_events = COUNT(e),                                      \
				       __VA_ARGS__})

/* How one kind of decision was predicted. */
struct accuracy_count tally_of(const struct validate *v, enum decision decision);

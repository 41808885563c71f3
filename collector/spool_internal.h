/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spool_internal.h - the layout of a spool's file and of struct spool, shared by spool.c (live
 * recordings) and spool_past.c (past recordings).
 */
#pragma once

#include "spool.h"

#include <limits.h>
#include <stdio.h>
#include <sys/types.h>

enum {
	SPOOL_BLOCK = 4096, /* bytes; O_DIRECT asks for this alignment on any common device */
	HEADER_BYTES = 4096,
	VERSION = 1,
	BYTE_ORDER_MARK = 0x01020304,
};

#define SPOOL_MAGIC "ptspool"

/*
 * Everything in memory is older than everything in the file. So the writer returns to
 * memory only when the file was released to its end, and the reader takes memory first.
 *
 * The counts only grow. Each group belongs to one thread and has a cache line of its own.
 */
struct spool_header {
	char magic[sizeof(SPOOL_MAGIC)];
	uint32_t byte_order, version, long_bytes, cpu;
	uint64_t slot_bytes, slots;
	char ended[64]; /* how it ended; empty while recording and after a kill */
	struct ring_stats counts;

	_Alignas(64) _Atomic uint64_t memory_written;
	_Atomic uint64_t file_written;
	/*
	 * The writer moves file_base and truncates the file when it starts again with an empty
	 * file.
	 */
	uint64_t file_base;
	/*
	 * The writer is about to take sub-buffer number `taking` out of the ring; its commit word
	 * is 0 until it is complete. A nonzero word means: a killed recorder took the sub-buffer
	 * but did not count it. Zero means: old contents of the slot.
	 */
	_Atomic uint64_t taking;
	uint32_t spilling; /* the next sub-buffer goes to the file */
	struct spool_load load;

	_Alignas(64) _Atomic uint64_t memory_released;
	_Atomic uint64_t file_released;
};

_Static_assert(sizeof(struct spool_header) <= HEADER_BYTES, "the header is a page");

struct spool {
	struct spool_header *header; /* the mapping: header, slots, staging slot */
	size_t slot_bytes, slots;
	char *read_slot; /* buffer for sub-buffers read from the file */
	int fd;          /* of the overflow; -1: none */
	char *dir;
	struct spool_budget *budget;
	bool keep;
	bool cut;    /* see spool_past */
	bool staged; /* a killed recorder's last one is in the staging slot */

	enum {
		NOWHERE,
		MEMORY,
		OVERFLOW,
		STAGING
	} popped; /* place of the reader's current sub-buffer */
	_Atomic uint64_t memory_read, file_read;
	uint64_t punched; /* the releaser's */
};

static inline void *memory_slot(const struct spool *spool, uint64_t n)
{
	return (char *)spool->header + HEADER_BYTES + n % spool->slots * spool->slot_bytes;
}

/* Behind the other slots. */
static inline void *staging_slot(const struct spool *spool)
{
	return (char *)spool->header + HEADER_BYTES + spool->slots * spool->slot_bytes;
}

static inline size_t map_bytes(const struct spool *spool)
{
	return HEADER_BYTES + (spool->slots + 1) * spool->slot_bytes;
}

static inline uint64_t get(const _Atomic uint64_t *count)
{
	return atomic_load_explicit(count, memory_order_acquire);
}

static inline void set(_Atomic uint64_t *count, uint64_t value)
{
	atomic_store_explicit(count, value, memory_order_release);
}

static inline void spool_file_name(char path[PATH_MAX], const char *dir, int cpu, const char *more)
{
	snprintf(path, PATH_MAX, "%s/cpu%d%s", dir, cpu, more);
}

static inline bool memory_full(const struct spool_header *h)
{
	return get(&h->memory_written) - get(&h->memory_released) == h->slots;
}

static inline void *next_memory_slot(const struct spool *spool)
{
	return memory_slot(spool, get(&spool->header->memory_written));
}

static inline uint64_t written(const struct spool_header *h)
{
	return get(&h->memory_written) + get(&h->file_written);
}

/* A spool without its mapping and its overflow file. -ENOMEM; free *out in any case. */
int spool_new_shell(struct spool **out, const char *dir, size_t slot_bytes, size_t slots,
		    struct error *err);

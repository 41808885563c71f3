/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spool_internal.h - the layout of a spool's file and of struct spool, shared by spool.c (live
 * recordings), spool_store.c (their overflow), spool_past.c (past recordings) and spool_file.c
 * (what both have in common).
 */
#pragma once

#include "spool.h"

#include <limits.h>
#include <stdio.h>

enum {
	SPOOL_BLOCK = 4096, /* bytes; O_DIRECT asks for this alignment on any common device */
	HEADER_BYTES = 4096,
	VERSION = 2,
	BYTE_ORDER_MARK = 0x01020304,
};

#define SPOOL_MAGIC "ptspool"

/* What a spool begins with. */
struct spool_start {
	char magic[sizeof(SPOOL_MAGIC)];
	uint32_t byte_order, version, long_bytes, cpu;
	uint64_t slot_bytes, slots;
	char ended[64]; /* how it ended; empty while recording and after a kill */
	struct ring_stats counts;
};

/*
 * A sub-buffer that is not released is in the file if its number is below `stored`, else in memory.
 * Where `stored` is below `released`, the file has none. A slot is free again when its sub-buffer
 * was stored or released.
 *
 * The counts only grow. Each group belongs to one thread and has a cache line of its own.
 */
struct spool_header {
	struct spool_start start;

	/* The ring's reader. */
	_Alignas(64) _Atomic uint64_t filled;
	/*
	 * The ring's reader is about to take sub-buffer number `taking` - 1 out of the ring; its
	 * commit word is 0 until it is complete. A nonzero word means: a killed recorder took the
	 * sub-buffer but did not count it. Zero means: old contents of the slot.
	 */
	_Atomic uint64_t taking;
	struct spool_load load;

	/* The storing thread: it moves file_base when it starts again with an empty file. */
	_Alignas(64) _Atomic uint64_t stored;
	uint64_t file_base;
	uint64_t file_slots; /* most that the file has room for */

	_Alignas(64) _Atomic uint64_t released;
};

_Static_assert(sizeof(struct spool_header) <= HEADER_BYTES, "the header is a page");

/* Consecutive sub-buffers of a former recorder, all in memory or all in the file. */
struct spool_extent {
	uint64_t first, end; /* numbers */
	bool in_file;
	uint64_t at; /* slot of the first, modulo the number of slots there */
};

struct spool {
	struct spool_header *header; /* the mapping: a page with the header, then the slots */
	size_t slot_bytes, slots;
	size_t batch; /* slots of one write to the file, and of one read */
	int fd;       /* of the overflow; -1: none */
	char *dir;
	struct spool_budget *budget;
	bool keep;
	ssize_t (*write)(int fd, const struct iovec *parts, int nr, off_t at);
	_Atomic int problem;

	/* The reader's: its place, and a buffer with the sub-buffers from `buffered` on. */
	_Atomic uint64_t read;
	bool popped; /* it uses number `read` */
	char *buffer;
	uint64_t buffered, buffered_end;
	void (*disk)(void *context, bool begin); /* see spool_on_disk_read */
	void *disk_context;

	/* The storing thread's: file space before this number was freed. */
	uint64_t punched;

	/* Of a former recorder: what it left, and its header. */
	bool past;
	struct spool_extent extents[2];
	int nr_extents;
	struct spool_start start;
	struct spool_load load;
	uint64_t end; /* place behind the last sub-buffer */
	bool cut;     /* see spool_past */
	uint64_t file_slots;

	size_t map_bytes;
};

static inline uint64_t get(const _Atomic uint64_t *count)
{
	return atomic_load_explicit(count, memory_order_acquire);
}

static inline void set(_Atomic uint64_t *count, uint64_t value)
{
	atomic_store_explicit(count, value, memory_order_release);
}

static inline char *memory_slot(const struct spool *spool, uint64_t n)
{
	return (char *)spool->header + HEADER_BYTES + n % spool->slots * spool->slot_bytes;
}

/* Sub-buffers before this number are not in memory any more. */
static inline uint64_t memory_first(const struct spool_header *h)
{
	uint64_t stored = get(&h->stored), released = get(&h->released);

	return stored > released ? stored : released;
}

static inline uint64_t file_slot(const struct spool_header *h, uint64_t n)
{
	return (n - h->file_base) % h->file_slots;
}

static inline void spool_file_name(char path[PATH_MAX], const char *dir, int cpu, const char *more)
{
	snprintf(path, PATH_MAX, "%s/cpu%d%s", dir, cpu, more);
}

/* Valid bytes of a sub-buffer, at most slot_bytes. */
size_t spool_used_bytes(const struct spool *spool, const void *subbuf);

/* Read up to `nr` slots of the file, from slot `at` on, into the buffer. */
int spool_read_file(struct spool *spool, uint64_t at, size_t nr, struct error *err);

/* A spool without its mapping and its overflow file. -ENOMEM; free *out in any case. */
int spool_new_shell(struct spool **out, const char *dir, size_t slot_bytes, size_t slots,
		    struct error *err);

/* spool_pop of a former recorder's spool. */
int spool_pop_past(struct spool *spool, const void **subbuf, struct error *err);

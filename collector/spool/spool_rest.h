/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spool_rest.h - the rest of a ring whose recorder was killed.
 *
 * The guard (guard.c) stores it in the directory of the spools, for each CPU:
 *
 *   cpuN.rest   a page with struct spool_rest_header, then sub-buffers of `slot_bytes` each
 *
 * Its sub-buffers follow those of the spool. Byte order and word size are those of the machine
 * that wrote it.
 */
#pragma once

#include "error.h"
#include "ring/instance.h"

#include <stddef.h>
#include <stdint.h>

enum { SPOOL_REST_HEADER = 4096 }; /* bytes */

#define SPOOL_REST_MAGIC "ptrest1"

struct spool_rest_header {
	char magic[sizeof(SPOOL_REST_MAGIC)];
	uint32_t byte_order, long_bytes;
	uint64_t slot_bytes;
	uint64_t counted;         /* 1: the guard came to its end, and the counts are known */
	struct ring_stats counts; /* of the ring, after its rest was taken */
};

_Static_assert(sizeof(struct spool_rest_header) <= SPOOL_REST_HEADER, "the header is a page");

/*
 * Take the rest out of the ring of `cpu` in the directory `instance` of tracefs, and store it in
 * the directory `spool`. Without room for all of it, the counts show how much is missing.
 */
void spool_rest_store(int spool, int instance, int cpu);

struct spool_rest;

/*
 * Open the rest of one CPU for reading; *out is NULL if there is none. -EBADMSG (damaged, or of a
 * spool with other sub-buffers than `slot_bytes`), -ENOMEM.
 */
int spool_rest_open(struct spool_rest **out, const char *dir, int cpu, size_t slot_bytes,
		    struct error *err);

void spool_rest_free(struct spool_rest *rest);

/* The next sub-buffer, valid until the next call: 1, 0 at the end, or -errno. */
int spool_rest_pop(struct spool_rest *rest, const void **subbuf, struct error *err);

/* Bytes of the sub-buffers that one CPU's rest has, without reading it; 0 if there is none. */
uint64_t spool_rest_bytes(const char *dir, int cpu);

/* The counts of the ring; NULL if they are unknown. */
const struct ring_stats *spool_rest_counts(const struct spool_rest *rest);

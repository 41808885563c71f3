/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.h - what a recording takes of a machine: memory, threads and open files.
 *
 * A plan is computed from numbers alone, so that a machine can be planned that is not there.
 */
#pragma once

#include "error.h"

#include <stddef.h>
#include <stdint.h>

enum {
	PLAN_MEMORY_MB = 256,   /* most memory of all spools together */
	PLAN_CPU_MB = 64,       /* ... and of one CPU's: 1.5 s of the worst page-fault storm */
	PLAN_MEMORY_SHARE = 16, /* ... and the fraction of the memory there is */
	PLAN_MIN_SLOTS = 8,     /* ... but never fewer sub-buffers of a CPU */
	PLAN_CPU_FILES = 2,     /* of each CPU: its ring and its overflow file */
};

struct plan_input {
	int cpus;
	size_t subbuf_bytes;
	uint64_t memory;       /* bytes that this process may use, see plan_memory() */
	uint64_t disk;         /* free bytes of the spools' file system: memory is a file there */
	uint64_t spool_max;    /* most bytes of all spools, memory and files; 0: no bound */
	uint64_t spool_memory; /* most bytes of all spools in memory; 0: no further bound */
};

struct plan {
	size_t slots;    /* sub-buffers in memory, of each CPU */
	uint64_t memory; /* bytes of all spools together */
	uint64_t disk;   /* most bytes of their files; 0: no bound */
	int threads;     /* of the recorder: a reader for each CPU, writer, decoder */
	int files;       /* open at once, by the recorder */
};

/* -EINVAL if spool_max is too small for that many CPUs. */
int plan_make(struct plan *out, const struct plan_input *in, struct error *err);

/* Bytes of memory that this process may use: of the machine, or of a control group with less. */
uint64_t plan_memory(void);

/*
 * Keep the heap of this process small from now on: one arena, and large blocks go back to the
 * kernel when they are freed. A recorder has few allocations, and none for each event.
 */
void plan_small_heap(void);

/*
 * Give back what only the start of a recording needed: free blocks of the heap, and the mappings of
 * code. Code stays in the page cache and is mapped again at its next use, as far as it is used. A
 * kernel maps a whole folio at the first use of a byte, which may be megabytes of a library.
 */
void plan_give_back(void);

/*
 * Let this process open `files` files besides the usual ones: raises RLIMIT_NOFILE, if necessary
 * and allowed also its hard limit. -EMFILE with the limit and the number.
 */
int plan_allow_files(int files, struct error *err);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * precopy_kernel.h - a simulated page allocator, with the programs of a precopied snapshot compiled
 * for this machine: the real programs and the real snapshot_precopy.c over simulated lists.
 *
 * Time is simulated too: each read of memory costs some nanoseconds. While the programs read,
 * allocations and frees go on at the rate given, at any point between two reads. An event may come
 * a moment after its change, as on another CPU. While the CPUs are held, nothing happens.
 */
#pragma once

#include "snapshot/snapshot_internal.h"

struct sim_options {
	uint64_t pages; /* of each zone; a multiple of 32768 */
	uint32_t zones, cpus;
	uint64_t seed;
	uint64_t free_blocks;  /* of each zone, at the begin */
	uint32_t pcp_pages;    /* of each CPU in each zone, at the begin */
	double changes_per_ms; /* allocations, frees and events of all CPUs together */
	double interrupts; /* share of the frees that interrupt a task that has the PCP's lock */
	double silent; /* share of the frees, and of the pageblocks, that change without an event */
	double turns;  /* share of the changes that turn a free list over, without an event */
	double cross;  /* share of the changes that move whole pageblocks */
	uint32_t read_ns; /* time for a read of kernel memory */
	uint32_t max_us;  /* as snapshot_new() */
	uint32_t apart;   /* so many meetings fail at first: a hypervisor keeps the CPUs apart */
	uint32_t max_entries; /* room in the map of list entries; 0: enough */
	bool unmarked;        /* no free block is large enough for the allocation of the cut */
	bool remember;        /* keep the truth, for sim_shows_the_truth() */
};

/* The snapshot of a simulated machine. One at a time; sim_free() before the next. */
struct snapshot *sim_new(const struct sim_options *options);
void sim_free(void);

/* Whether rows of free_block, pcp_page and pageblock are what the lists were at the cut. */
bool sim_shows_the_truth(const struct snapshot_result *result);

/* Changes so far: proof that the machine was busy. */
uint64_t sim_changes(void);

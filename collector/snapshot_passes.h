/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot_passes.h - the image of a precopied snapshot: made, and brought close to what the lists
 * are, without holding anything.
 */
#pragma once

#include "snapshot_internal.h"

#include <stdatomic.h>

/* One attempt: an image, and meetings until one of them succeeds. */
struct attempt {
	struct snapshot *s;
	int leader;             /* index of its CPU in freezer_cpus() */
	uint32_t zone;          /* that the leader's allocation should take a page of */
	int *zone_owner;        /* by zone: who reads it in the meeting */
	uint64_t first_segment; /* of the pass or meeting */
	struct precopy_data data;
	atomic_bool turned; /* the leader has begun the last pass */
	atomic_bool failed; /* a walk of the meeting did not end */
};

/* Run a program of snapshot_precopy.bpf.h. */
void precopy_run(struct snapshot *s, const char *name, struct precopy_args *args);

/* Whether it did all of its work. */
bool precopy_ended(const struct precopy_args *args);

/* Arguments for one zone, or one CPU's PCP in it. */
struct precopy_args precopy_of_zone(uint32_t z, uint64_t deadline_ns);
struct precopy_args precopy_of_pcp(uint32_t z, uint32_t cpu, uint64_t deadline_ns);

/* Forget everything, then copy all lists. False: a list changed too fast, or there is no room. */
void precopy_forget(struct attempt *a);
bool precopy_image(struct attempt *a);

/* Passes over all lists, until few pages are touched. */
void precopy_pass(struct attempt *a);

/*
 * Part of one pass: begin to collect touched pages anew, unless some of the last ones wait to be
 * settled; one zone, and its touched pages; one CPU's PCPs. At most `entries` at each end, until
 * the deadline. False: some end was not reached.
 */
void precopy_turn(struct snapshot *s);
bool precopy_pass_zone(struct snapshot *s, uint32_t z, uint64_t deadline_ns, uint32_t entries);
bool precopy_pass_pcps(struct snapshot *s, uint32_t cpu, uint64_t deadline_ns, uint32_t entries);

/* After a pass or a failed meeting: keep only what added entries to the image. */
void precopy_keep(struct attempt *a);

/* After a failed join: the image is wrong in one place. Read that again, rather than all. */
void precopy_repair(struct attempt *a, enum join_result result);

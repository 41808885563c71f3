/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot_passes.h - the image of a precopied snapshot: made, and brought close to what the lists
 * are, without holding anything.
 */
#pragma once

#include "snapshot_internal.h"

#include <stdatomic.h>

/* One zone in a pass. */
struct zone_pass {
	int owner;      /* index of the CPU in freezer_cpus() that reads the zone in a meeting */
	int turn;       /* attempt.turns of this pass */
	uint32_t list;  /* where the look at the lists goes on */
	uint32_t until; /* touches to settle */
	bool looked;    /* at all lists, since the turn */
};

/* One attempt: an image, and meetings until one of them succeeds. */
struct attempt {
	struct snapshot *s;
	int leader;    /* index of its CPU in freezer_cpus() */
	uint32_t zone; /* that the leader's allocation should take a page of; nr_zones: the cut is
			  an instant without an allocation */
	struct zone_pass *zones;
	uint64_t first_segment; /* of the pass or meeting */
	struct precopy_data data;
	atomic_int turns;          /* passes so far */
	int first_turn;            /* before the meeting */
	bool met;                  /* all CPUs, at least once */
	int rounds;                /* of the preparation of a meeting */
	_Atomic uint64_t begun_ns; /* the first CPU's begin of the meeting; 0: none yet */
	atomic_bool failed;        /* a walk of the meeting did not end */
	bool cut;                  /* the leader made the cut of the meeting */
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
 * Parts of one pass. First a turn: begin to collect touched pages anew, unless some of the last
 * ones wait to be settled. Then each zone, in as many calls as it takes, and each CPU's PCPs. At
 * most `entries` at each end, until the deadline. False: some end was not reached.
 */
void precopy_turn(struct attempt *a);
bool precopy_pass_zone(struct attempt *a, uint32_t z, uint64_t deadline_ns, uint32_t entries);
bool precopy_pass_pcps(struct snapshot *s, uint32_t cpu, uint64_t deadline_ns, uint32_t entries);

/* After a pass or a failed meeting: keep only what added entries to the image. */
void precopy_keep(struct attempt *a);

/*
 * After a failed join: the image is wrong in one place. Read that again, rather than all. False:
 * that is not enough.
 */
bool precopy_repair(struct attempt *a, enum join_result result);

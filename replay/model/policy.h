/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy.h - the only seam between the model and a policy.
 *
 * The model owns mechanisms: it splits, merges, refills, drains. A policy owns
 * choices. Adding a policy is one new file in policies/ and one line in meson.build; or
 * one shared object for --policy-lib and nothing here (policy_lib.h).
 *
 *   a setup choice  is asked once, before the first event. It edits what a run owns a
 *                   copy of: its machine and zones, its kernel row, the numbers of its
 *                   PCPs, which the fast path reads anyway.
 *   a choice        answers a question while events run.
 *   a notice        tells what is about to happen or has happened.
 *
 * A choice of either kind has exactly one owner in a run: mainline, unless another policy
 * takes it. Two claimants are refused at start. A notice is heard by every policy.
 *
 * No hook is called on a PCP hit, or on a free to a PCP that has room.
 */
#pragma once

#include "machine.h"
#include "zone.h"

struct policy {
	const struct policy_ops *ops;
	void *state; /* ops->state_size zeroed bytes, then the parameters set */
	/* Of the same run. Who differs only sometimes passes on what its hooks say. */
	struct policy *mainline;
};

/* One knob, an int64_t of the state. */
struct policy_param {
	const char *name;
	int64_t min, max, initial;
	size_t offset;
	const char *const *values; /* of an enum: one name per value from 0 on; else NULL */
	const char *doc;
};

enum nofragment_span {
	NOFRAGMENT_OFF,
	NOFRAGMENT_FIRST_PASS, /* until every allowed zone was tried */
	NOFRAGMENT_ALWAYS,     /* until reclaim would have failed */
};

/* How the zones of several nodes follow each other in a zonelist. */
enum zonelist_order {
	ZONELIST_NODE, /* all zones of a node, then the next node */
	ZONELIST_ZONE, /* the highest zone of all nodes, then the next lower zone */
};

/* Picoseconds that a zone lock is held: see zone_lock_queue.h. */
struct lock_costs {
	int64_t take_ps, take_block_ps; /* refills and direct allocations */
	int64_t give_ps, give_block_ps; /* drains, decays and direct frees */
	int copies;                     /* of the tape's CPUs, laid over each other */
};

/* The block that runs of single-page requests are served from: see alloc_batch.h. */
struct alloc_batch {
	int order; /* 0: none */
	uint64_t gap_ns;
};

/* One step of a try: blocks, or single pages, of nodes in reach. */
struct huge_step {
	struct reach reach;
	bool single; /* a single page there is better than what the window after this give */
};

enum {
	DISTANCE_CLASSES = 8, /* that policies tell apart: the last is all nodes beyond */
	HUGE_STEPS_MOST = 2 * DISTANCE_CLASSES,
	HUGE_TRIES_MOST = 2,
};

/* What the kernel would call one allocation: the window above low, then above min. */
struct huge_try {
	struct huge_step window[HUGE_STEPS_MOST];
	int nr_steps;
	bool this_node; /* __GFP_THISNODE */
	bool reclaimer; /* is made for those only that may reclaim */
	int rounds;     /* of direct reclaim, with feedback */
};

/* How a fault gets a huge page: see huge.h. */
struct huge_plan {
	struct huge_try tries[HUGE_TRIES_MOST];
	int nr_tries;
};

/* What the pageblock of a fallback's chunk looks like to the requester. */
struct claim {
	int chunk_order;
	uint32_t free_pages;
	uint32_t alike_pages; /* used pages that suit the requested migratetype */
	uint32_t block_pages;
};

struct policy_ops {
	uint64_t abi; /* POLICY_ABI in a policy from outside the tree */
	const char *name;
	const char *doc;
	const char *kernel; /* where it comes from */
	const char *tier;   /* of what it predicts: A placement, B modelled feedback */
	size_t state_size;
	const struct policy_param *params; /* ends with a NULL name; may be NULL */

	/* Setup choices, in the order they are asked in. NULL leaves one to its owner. */

	/* What a fallback does, whom it merges and retypes: edit the run's row. */
	void (*fallback_family)(struct policy *self, struct kernel *row);
	/* How PCPs size refills and drains: edit the run's row. */
	void (*pcp_tuning)(struct policy *self, struct kernel *row);
	/* What becomes of MIGRATE_RESERVE: edit the run's row. */
	void (*reserve)(struct policy *self, struct kernel *row);
	/* When kswapd may sleep and what it wakes for: edit the run's row. */
	void (*kswapd_rules)(struct policy *self, struct kernel *row);
	/* Which free pages kswapd and kcompactd count: edit the run's row. */
	void (*kswapd_blocks)(struct policy *self, struct kernel *row);
	/*
	 * How much memory zones keep free: edit the `nr` zones of the snapshot, before the
	 * layout; whether watermarks changed, so that PCPs are sized by them again.
	 */
	bool (*watermarks)(struct policy *self, struct zone_spec *zones, int nr);
	/*
	 * Which zones and nodes there are: edit the machine and the `nr` zones of the
	 * snapshot, of which there may be `most`. 0 or fail().
	 */
	int (*layout)(struct policy *self, struct machine *machine, struct zone_spec *zones,
		      int *nr, int most, struct error *err);
	enum zonelist_order (*zonelist_order)(struct policy *self, const struct model *m);
	/* Pageblocks of MIGRATE_RESERVE that a zone has at the start, if the row knows it. */
	int (*reserve_blocks)(struct policy *self, const struct model *m, const struct zone *zone);
	/* Change what the snapshot, or the row's formula, gave a PCP: high, batch... */
	void (*pcp_limits)(struct policy *self, const struct model *m, const struct zone *zone,
			   struct pcp *pcp);
	/* Time between two vmstat ticks of a CPU; 0: as the tape tells, or 1 s. */
	uint64_t (*tick_ns)(struct policy *self);
	/* Serve runs of single-page requests from larger blocks. */
	void (*alloc_batch)(struct policy *self, struct alloc_batch *unit);
	/* How faults get huge pages; false: what the record's tries get. */
	bool (*huge_plan)(struct policy *self, struct huge_plan *scan);
	/* How far a node may be that reclaims before a request goes on to the next; 0: none. */
	int (*zone_reclaim_distance)(struct policy *self);
	/* vm.compaction_proactiveness, 0 to 100. */
	int (*proactiveness)(struct policy *self);
	/* How long zone locks are held; false: they are not modelled. */
	bool (*lock_costs)(struct policy *self, struct lock_costs *costs);

	/* Choices. NULL leaves one to its owner. */

	/* How long a request refuses to mix migratetypes. */
	enum nofragment_span (*nofragment)(struct policy *self, const struct model *m,
					   const struct request *rq, const struct zone *preferred);
	/* Which foreign list of this order to take from, or -1 if all are empty. */
	int (*fallback_type)(struct policy *self, const struct zone *zone, int order,
			     int migratetype);
	/* Whether the whole pageblock is to change owner. */
	bool (*claim)(struct policy *self, const struct request *rq, const struct claim *claim);
	/*
	 * Most pages the zone's watermarks may stand higher by; 0 boosts nothing. Asked at
	 * every fallback and at every attempt to claim a pageblock: `trigger` says which.
	 */
	int64_t (*watermark_boost)(struct policy *self, const struct model *m,
				   const struct zone *zone, int trigger);
	/* Whether a fallback to a chunk of this order, below pageblock order, is refused. */
	bool (*refuse_fallback)(struct policy *self, struct model *m, struct zone *zone,
				const struct request *rq, int order);

	/* Notices. NULL hears nothing. */

	/* A fallback to a chunk of this order was made (mm_page_alloc_extfrag). */
	void (*on_fallback)(struct policy *self, struct model *m, struct zone *zone,
			    const struct request *rq, int order);
};

/*
 * What a policy from outside the tree was compiled against: the sizes of what it sees, and
 * a version, raised when a struct changes without changing its size.
 */
#define POLICY_VERSION 1ull
#define POLICY_ABI                                                                                 \
	(POLICY_VERSION << 32 |                                                                    \
	 (3 * sizeof(struct policy_ops) + 5 * sizeof(struct model) + 7 * sizeof(struct zone) +     \
	  11 * sizeof(struct pcp) + 13 * sizeof(struct kernel) + 17 * sizeof(struct request)))

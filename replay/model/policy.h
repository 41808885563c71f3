/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy.h - the only seam between the model and a policy.
 *
 * The model owns mechanisms: it splits, merges, refills, drains. A policy owns choices. A new
 * policy is one file in policies/ and one line in meson.build there, or one shared object for
 * --policy-lib (policy_lib.h).
 *
 *   a setup choice  is asked once, before the first event. It edits the run's own copies of
 *                   the machine, the zones, the kernel row and the sizes of the PCPs.
 *   a choice        answers a question while events run.
 *   a notice        reports an event of the model.
 *   the effect      is asked once, after the last event: what did the policy decide?
 *
 * A choice of either kind has exactly one owner in a run: mainline, unless another policy
 * takes it. Two policies that take the same choice are refused at start. Every policy gets
 * every notice.
 *
 * No hook runs on a PCP hit, or on a free to a PCP that has room. Policies steer that path by
 * the numbers that it reads anyway.
 */
#pragma once

#include "machine.h"
#include "policy_effect.h"
#include "zone.h"

struct policy {
	const struct policy_ops *ops;
	void *state; /* ops->state_size zeroed bytes, then the parameters set */
	char *spec;  /* as given: "name" or "name:key=value"; of mainline its name */
	/*
	 * Mainline of the same run. A policy that differs only in some cases calls its hooks in the
	 * others.
	 */
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
	NOFRAGMENT_ALWAYS,     /* until reclaim has failed */
};

/* Order of the zones of several nodes in a zonelist. */
enum zonelist_order {
	ZONELIST_NODE, /* all zones of a node, then the next node */
	ZONELIST_ZONE, /* the highest zone of all nodes, then the next lower zone */
};

/* Picoseconds that a zone lock is held: see zone_lock_queue.h. */
struct lock_costs {
	int64_t take_ps, take_block_ps; /* refills and direct allocations */
	int64_t give_ps, give_block_ps; /* drains, decays and direct frees */
	int copies;                     /* overlaid copies of the tape's CPUs */
};

/* The block that serves a run of single-page requests: see alloc_batch.h. */
struct alloc_batch {
	int order;       /* 0: none */
	uint64_t gap_ns; /* longest time between two requests of a run */
	/* Of PCPs, for every order: refills double as those of order 0; runs drain none. */
	bool scales_refills, keeps_frees;
};

/* One step of a try: huge pages, or single pages, of the nodes in reach. */
struct huge_step {
	struct reach reach;
	bool single; /* a single page there is better than the later steps */
};

enum {
	DISTANCE_CLASSES =
		8, /* distance classes of a policy; the last one holds all farther nodes */
	HUGE_STEPS_MOST = 2 * DISTANCE_CLASSES,
	HUGE_TRIES_MOST = 2,
};

/* One allocation of the kernel: all its steps above the low watermark, then all above min. */
struct huge_try {
	struct huge_step steps[HUGE_STEPS_MOST];
	int nr_steps;
	uint32_t gfp_flags; /* added to the fault's own: __GFP_THISNODE, __GFP_NORETRY */
	bool reclaimer;     /* only for requests that may reclaim */
	bool turns;         /* with feedback, then reclaim and compaction as the flags say */
};

/* How a fault gets a huge page: see huge.h. */
struct huge_plan {
	struct huge_try tries[HUGE_TRIES_MOST];
	int nr_tries;
};

/* The pageblock of a fallback's chunk, as claims see it. */
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
	const char *kernel; /* kernel versions that have the rule, or "none" */
	/*
	 * Of its predictions: "A" placement, "B" modelled feedback. A policy that owns a choice of
	 * reclaim (FOR_EACH_RECLAIM_CHOICE) has tier B in any case, unless `feedback` says no.
	 */
	const char *tier;
	size_t state_size;
	const struct policy_param *params; /* ends with a NULL name; may be NULL */
	/*
	 * Whether the policy, with its parameters, acts through reclaim or compaction in a run of
	 * that row: without feedback it shows costs and no benefits. NULL: by tier and choices.
	 */
	bool (*feedback)(const struct policy *self, const struct kernel *row);

	/* Setup choices, in the order of the calls. NULL leaves a choice to its owner. */

	/* Fallbacks, merges and retyping: edit the run's row. */
	void (*fallback_family)(struct policy *self, struct kernel *row);
	/* How PCPs size refills and drains: edit the run's row. */
	void (*pcp_tuning)(struct policy *self, struct kernel *row);
	/* MIGRATE_RESERVE: edit the run's row. */
	void (*reserve)(struct policy *self, struct kernel *row);
	/* When kswapd may sleep, and for which zones it wakes: edit the run's row. */
	void (*kswapd_rules)(struct policy *self, struct kernel *row);
	/* Which free pages kswapd and kcompactd count: edit the run's row. */
	void (*kswapd_blocks)(struct policy *self, struct kernel *row);
	/*
	 * Watermarks and reserves: edit the `nr` zones of the machine's snapshot, before the
	 * layout. Returns whether watermarks changed; PCPs are then sized again. It is asked again
	 * when the recorded limits change, as is pcp_limits.
	 */
	bool (*watermarks)(struct policy *self, const struct machine *machine,
			   struct zone_spec *zones, int nr);
	/*
	 * Zones and nodes: edit the machine and the `nr` zones of the snapshot, up to `most`
	 * zones. 0 or fail().
	 */
	int (*layout)(struct policy *self, struct machine *machine, struct zone_spec *zones,
		      int *nr, int most, struct error *err);
	enum zonelist_order (*zonelist_order)(struct policy *self, const struct model *m);
	/* RESERVE pageblocks of a zone at the start, if the row has MIGRATE_RESERVE. */
	int (*reserve_blocks)(struct policy *self, const struct model *m, const struct zone *zone);
	/* Edit the sizes of a PCP (high, batch ...) that the snapshot or the row gave it. */
	void (*pcp_limits)(struct policy *self, const struct model *m, const struct zone *zone,
			   struct pcp *pcp);
	/* Time between two vmstat ticks of a CPU; 0: as recorded, or 1 s. */
	uint64_t (*tick_ns)(struct policy *self);
	/* Serve runs of single-page requests from larger blocks. Also asked at edits of the row. */
	void (*alloc_batch)(struct policy *self, struct alloc_batch *batch);
	/* How faults get huge pages; false: by the recorded tries. */
	bool (*huge_plan)(struct policy *self, struct huge_plan *plan);
	/* Which nodes reclaim before a request tries the next, and with which rights. */
	void (*zone_reclaim)(struct policy *self, struct zone_reclaim *reclaim);
	/* vm.compaction_proactiveness, 0 to 100. */
	int (*proactiveness)(struct policy *self);
	/* How long zone locks are held; false: zone locks are not modelled. */
	bool (*lock_costs)(struct policy *self, struct lock_costs *costs);

	/* Choices. NULL leaves a choice to its owner. */

	/* Up to which step a request refuses to mix migratetypes. */
	enum nofragment_span (*nofragment)(struct policy *self, const struct model *m,
					   const struct request *rq, const struct zone *preferred);
	/* Which foreign list of this order to take from, or -1 if all are empty. */
	int (*fallback_type)(struct policy *self, const struct zone *zone, int order,
			     int migratetype);
	/*
	 * Whether the pageblock of a chunk below pageblock order changes owner. In the rows 4.20 to
	 * 6.8 (FALLBACK_MOVE) the block's free pages have moved to the requested list already.
	 * Earlier rows do not ask.
	 */
	bool (*claim)(struct policy *self, const struct request *rq, const struct claim *claim);
	/*
	 * Largest boost of the zone's watermarks, in pages; 0: no boost. Asked at every fallback
	 * and at every attempt to claim a pageblock; `trigger` is the one of the two.
	 */
	int64_t (*watermark_boost)(struct policy *self, const struct model *m,
				   const struct zone *zone, int trigger);
	/*
	 * Whether a fallback to a chunk of this order, below pageblock order, is refused. The
	 * request then gets no page of this zone: up to 6.14 at once, from 6.15 on after all its
	 * chunks. The boost happens all the same, and each attempt asks again.
	 */
	bool (*refuse_fallback)(struct policy *self, struct model *m, struct zone *zone,
				const struct request *rq, int order);

	/* Notices. NULL: none. */

	/* A fallback to a chunk of this order was made (mm_page_alloc_extfrag). */
	void (*on_fallback)(struct policy *self, struct model *m, struct zone *zone,
			    const struct request *rq, int order);
	/*
	 * A zone gave a request under ALLOC_NOFRAGMENT no page, and has one of another migratetype
	 * in a chunk below pageblock order.
	 */
	void (*on_unmixed)(struct policy *self, struct model *m, const struct zone *zone,
			   const struct request *rq);

	/* After the last event: fill in the effect. `total` has the sums over the run. May be NULL.
	 */
	void (*effect)(struct policy *self, const struct model *m, const struct counters *total,
		       struct policy_effect *effect);
};

/*
 * Identifies the headers that an external policy was compiled with: the sizes of the structs, and a
 * version. Raise the version when a struct changes but its size does not.
 */
#define POLICY_VERSION 3ull
#define POLICY_ABI                                                                                 \
	(POLICY_VERSION << 32 |                                                                    \
	 (3 * sizeof(struct policy_ops) + 5 * sizeof(struct model) + 7 * sizeof(struct zone) +     \
	  11 * sizeof(struct pcp) + 13 * sizeof(struct kernel) + 17 * sizeof(struct request)))

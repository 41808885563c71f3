/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot.h - the page allocator's whole state at one instant, read with BPF.
 *
 * A snapshot has one instant, the cut: mostly an allocation by this process that takes a page from
 * a zone's buddy lists. Its mm_page_alloc_zone_locked event (cut_pfn, cut_cpu, cut_tid) is in the
 * trace; the snapshot shows the state right after the removal of that page. Where memory has no
 * such page, the cut is an instant at which no CPU runs anything else.
 *
 * The lists are copied beforehand, and the zone lock and the CPUs are held for a moment only: see
 * snapshot_precopy.h. Neither is held for longer than about `max_us` each time. Load the programs
 * before the recording starts; take snapshots at its start and end.
 *
 * Needs 5.19 or later with BTF, BPF events and vmcoreinfo, CAP_BPF and CAP_PERFMON; to hold the
 * CPUs also CAP_SYS_NICE.
 */
#pragma once

#include "batch.h"
#include "freeze.h"

#include <stdbool.h>
#include <stdint.h>

struct snapshot;

struct snapshot_zone {
	uint16_t node;
	uint8_t zone;         /* ZONE_* of the generated tables.h */
	uint64_t copy_ns;     /* from the begin of the copy to the cut */
	uint64_t lock_ns;     /* longest hold of its lock; 0: not held */
	uint64_t free_blocks; /* entries of its free lists */
};

/* Comparisons of redundant kernel data, and the contradictory ones. */
struct snapshot_checks {
	uint64_t list_sums, list_sums_wrong;         /* list lengths of an order == nr_free */
	uint64_t free_counters, free_counters_wrong; /* free pages == NR_FREE_PAGES */
	uint64_t pcp_sums, pcp_sums_wrong;           /* pages on the lists == count */
	uint64_t list_types, list_types_wrong; /* list == its pageblock's type (6.12 and later) */
	uint64_t places, places_wrong;         /* pages within their zone, aligned */
	/*
	 * PCP list == its pageblock's type. Not a contradiction: a page taken from a block of
	 * another type goes to the list of the type it was taken for, and a block may be claimed
	 * while pages of it wait in a list.
	 */
	uint64_t pcp_types, pcp_types_differ;
};

/* What kept images and meetings from giving a snapshot. */
enum snapshot_hindrance {
	SNAPSHOT_APART,        /* the CPUs did not meet: a hypervisor or a real-time task has one */
	SNAPSHOT_LATE,         /* more was new than the time of a meeting was enough for */
	SNAPSHOT_MOVED,        /* interrupts changed a list in a meeting */
	SNAPSHOT_UNMARKED,     /* the allocation of the cut took no page of the expected zone */
	SNAPSHOT_RETYPED,      /* a pageblock changed its type without an event */
	SNAPSHOT_CONTRADICTED, /* lists and counters disagree: a change had no event */
	SNAPSHOT_FULL,         /* more entries than the maps have room for */
	NR_SNAPSHOT_HINDRANCES
};

enum {
	SNAPSHOT_MAX_HOLDS = 1 << 16, /* single holds that are noted */
	SNAPSHOT_TABLES =
		7, /* zone, free_area, block_count, pcp, free_block, pcp_page, pageblock */
};

struct snapshot_result {
	bool taken;       /* else the tables have no rows, and the cut is of no meaning */
	uint64_t cut_ns;  /* CLOCK_MONOTONIC */
	uint64_t cut_pfn; /* the event that marks the cut; 0: none does */
	int cut_cpu, cut_tid, cut_order;
	uint64_t held_ns; /* longest hold of a CPU */
	/* Each hold of a CPU, each hold of a lock in ns; valid until the next take. */
	const struct freezer_hold *holds;
	const uint64_t *locks;
	uint32_t nr_holds, nr_locks;
	int meetings;   /* times that all CPUs were held */
	int cpus, held; /* number of CPUs, and of the held ones */
	int attempts;
	uint32_t hindered[NR_SNAPSHOT_HINDRANCES]; /* how often; also of a snapshot that is exact */
	bool exact;                                /* taken, no check wrong */
	struct snapshot_checks checks;
	uint32_t nr_zones;
	const struct snapshot_zone *zones;     /* valid until the next take */
	struct batch *tables[SNAPSHOT_TABLES]; /* the caller exports these, then calls batch_free */
};

/*
 * Load the programs. -EPERM (capabilities), -ENOTSUP (the kernel lacks something; the message
 * names it), -ENOMEM.
 */
int snapshot_new(struct snapshot **out, struct error *err);
void snapshot_free(struct snapshot *s);

/*
 * Take snapshot `nr` of a tape. Where a hypervisor keeps the CPUs from meeting within `max_us`, no
 * snapshot is taken; a longer one may be. Loads the programs anew if CPUs or memory were
 * hot-plugged, or if the lists have outgrown the maps. -ESTALE (memory is hot-plugged right now),
 * -ENOMEM, and those of snapshot_new().
 */
int snapshot_take(struct snapshot *s, uint16_t nr, unsigned int max_us, struct snapshot_result *out,
		  struct error *err);

struct snapshot_zone_lock {
	uint64_t address; /* of zone->lock */
	uint16_t node;
	uint8_t zone; /* ZONE_* of the generated tables.h */
};

/* The lock of zone `z`, counted from 0; false if there are no more zones. */
bool snapshot_zone_lock(const struct snapshot *s, uint32_t z, struct snapshot_zone_lock *out);

/*
 * Hold all CPUs as the last snapshot_take() did, but do no work: what the machine itself adds to a
 * hold. Returns the holds, `nr` of them; valid until the next call.
 */
const struct freezer_hold *snapshot_hold_only(struct snapshot *s, uint64_t ns, uint32_t *nr);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * toy.h - a zone small enough to draw, and its events and lists as text.
 *
 * Zone of whole pageblocks from pfn 0, one node, one CPU; every page used, all
 * watermarks 0. Events read
 *
 *   a(pfn)  f(pfn)  zl(pfn,order,type)  d(pfn,type)
 *   x(pfn,alloc order,fallback order,alloc type,fallback type,ownership)
 *
 * with U, M, R, H, V (RESERVE) for migratetypes. Lists are pfns, head first.
 */
#pragma once

#include "batch.h"
#include "model/buddy.h"
#include "model/model_check.h"
#include "model/model_new.h"
#include "model/pcp.h"
#include "model/policy_stack.h"
#include "model/zone.h"

struct toy {
	struct model *m;
	struct zone *zone;
	struct pcp *pcp;
	struct policy_stack *policies;
	struct kernel row; /* as the policies left it */
	struct events events;
	uint32_t gfp_flags;      /* of the next allocations */
	bool reclaimed;          /* their task comes out of direct reclaim */
	struct capture *capture; /* of the task that frees, or NULL */
	char text[16384];        /* what toy_events() returned last */
};

/* `blocks` has one letter per pageblock; "normal" zones have ALLOC_NOFRAGMENT. */
struct toy_geometry {
	int pageblock_order, max_order;
	const char *blocks;
	int zone; /* ZONE_DMA32 never has ALLOC_NOFRAGMENT; the default ZONE_DMA neither */
};

/* End the test program with the error's message if `ret` is one. */
void must(int ret, const struct error *err);

/* A batch of `nr` rows to fill in: all that can be null is, and 0 beneath. */
struct batch *toy_rows(const struct table *table, size_t nr);

/* One CPU on one node. */
struct machine toy_machine(int pageblock_order, int max_order);

void toy_new(struct toy *t, const char *kernel, struct toy_geometry geometry);
/* A machine of more: the toy's zone and PCP are the first ones. */
void toy_new_machine(struct toy *t, const char *kernel, const struct machine *machine,
		     const struct zone_spec *zones, int nr_zones);
/* The same under a policy, which has its setup choices. */
void toy_new_under(struct toy *t, const char *kernel, const char *policy,
		   struct toy_geometry geometry);
void toy_new_machine_under(struct toy *t, const char *kernel, const char *policy,
			   const struct machine *machine, const struct zone_spec *zones,
			   int nr_zones);
void toy_free(struct toy *t);

/* batch, and high_min = high = high_max. */
void toy_pcp(struct toy *t, int batch, int high);
/* Put a block that is used at the tail of a free list. */
void toy_add_free(struct toy *t, uint32_t pfn, int order, char type);
/* Say how many of a block's used pages are on an LRU list. */
void toy_movable(struct toy *t, uint32_t pfn, int pages);

/* An allocation of the one CPU; UINT64_MAX if it failed. */
uint64_t toy_alloc(struct toy *t, int order, char type);
/* A free of a used page, whoever used it. */
void toy_free_page(struct toy *t, uint32_t pfn, int order);
/* __free_one_page: past the PCP, to a given list. */
void toy_free_one(struct toy *t, uint32_t pfn, int order, char type);
/* Drain the PCP to its last page, as non-free callers do. */
void toy_drain(struct toy *t);

/* The events since the last call. */
const char *toy_events(struct toy *t);
/* A free list; a PCP list; the pageblocks' types. */
const char *toy_list(struct toy *t, int order, char type);
const char *toy_pcp_list(struct toy *t, int order, char type);
const char *toy_blocks(struct toy *t);

/* Whether two texts are equal; shows them if not. */
bool same_text(const char *got, const char *wanted);
#define check_text(got, wanted) check(same_text(got, wanted))

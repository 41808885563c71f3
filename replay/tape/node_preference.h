/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node_preference.h - the node that a thread's requests ask first, if they do not name one.
 *
 * The kernel asks the node of the CPU first, unless a memory policy, a cpuset or the caller says
 * otherwise. No event records the policy, but the page shows the node that served a request. A
 * request served by another node while the CPU's own node had memory was directed there. If more
 * than 1/50 of a thread's requests are of this kind, the thread counts as under a memory policy:
 * each of its requests first asks the node that served it.
 *
 * validate counts these requests, because its model has the kernel's number of free pages at every
 * request. A free run reads the result from the table `preference`.
 *
 * Requests with other reasons for a remote page are not counted: __GFP_THISNODE requests, which
 * name their node; requests in interrupts, which are not the thread's; requests for DMA and DMA32,
 * because a node may lack these zones; requests that a scan leads away from their node, because its
 * kswapd is awake (6.18) or because they may not mix migratetypes there (vm.defrag_mode).
 */
#pragma once

#include "model/model.h"
#include "output.h"
#include "event_window.h"
#include "tables.h"

enum { PIDS_MOST = 1 << 22 }; /* PID_MAX_LIMIT */

struct node_preference_count {
	uint32_t requests, remote, unforced; /* see schemas/preference.toml */
};

/* The counts of validate; empty on a machine of one node. */
struct node_preference {
	struct node_preference_count *threads; /* counts by pid, or NULL */
	int32_t most;                          /* highest counted pid */
};

/* Then arrays_error() of the model's. */
void node_preference_new(struct node_preference *p, const struct model *m);

/* The node that an alloc asked first, as far as its page shows. Before the page is taken. */
uint16_t node_preference_node(const struct model *m, const struct window_event *alloc);
/* The request of an alloc event, which asks that node first. */
struct request request_of(const struct model *m, const struct window_event *alloc);

/*
 * The likely gfp flags of a refill for pages of that type, of which no event records the request:
 * GFP_KERNEL, GFP_HIGHUSER_MOVABLE or, in an interrupt, GFP_ATOMIC.
 */
uint32_t refill_gfp(int migratetype, uint8_t flags);

/* Before an event runs: count it if it is an alloc, or a refill where no event shows allocs. */
void node_preference_see(struct node_preference *p, const struct model *m,
			 const struct window_event *event);

/* Write a row of preference for each thread. */
void node_preference_write(const struct node_preference *p, struct output *o);

/*
 * Threads whose requests first ask the node that serves them: a bit for each pid, freed by the
 * caller, or NULL without such threads. -ENOMEM, or -EINVAL for an impossible pid.
 */
int node_preference_load(uint64_t **landed, struct arrays *arrays,
			 const struct preference_columns *columns, size_t rows, struct error *err);

static inline bool asks_where_it_lands(const uint64_t *landed, int32_t pid)
{
	return landed && (uint32_t)pid < PIDS_MOST && landed[pid / 64] >> pid % 64 & 1;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node_preference.h - the node that a thread's requests ask first, where they do not name it.
 *
 * The kernel asks the node of the CPU first, unless a memory policy, a cpuset or the caller says
 * otherwise. No event records those, but the page shows where a request landed. A request that
 * landed elsewhere while the CPU's own node had memory was sent there. A thread with more than a
 * fiftieth of such requests counts as under a memory policy: each of its requests asks the node it
 * was served from.
 *
 * validate counts, because its model has at every request the free pages that the kernel had. A
 * free run reads the threads found from the table `preference`.
 *
 * Not counted are requests that may land elsewhere for other reasons: those with __GFP_THISNODE,
 * whose node is that of the page they got; those in interrupts, which are not the thread's; and
 * those for DMA and DMA32, zones that a node may lack.
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
	struct node_preference_count *threads; /* [pid] or NULL */
	int32_t most;                          /* highest pid that was counted */
};

/* -ENOMEM. */
int node_preference_new(struct node_preference *p, const struct model *m, struct error *err);
void node_preference_free(struct node_preference *p);

/* The node that an alloc asked first, as far as its page, about to be taken, shows. */
uint16_t node_preference_node(const struct model *m, const struct window_event *alloc);

/* An event is about to run: count it if it is an alloc. */
void node_preference_see(struct node_preference *p, const struct model *m,
			 const struct window_event *event);

/* Write a row of preference for each thread. */
void node_preference_write(const struct node_preference *p, struct output *o);

/*
 * Threads whose requests ask first the node they land on: a bit for each pid, to be freed, or NULL
 * without such threads. -ENOMEM, or -EINVAL for an impossible pid.
 */
int node_preference_load(uint64_t **landed, const struct preference_columns *columns, size_t rows,
			 struct error *err);

static inline bool asks_where_it_lands(const uint64_t *landed, int32_t pid)
{
	return landed && (uint32_t)pid < PIDS_MOST && landed[pid / 64] >> pid % 64 & 1;
}

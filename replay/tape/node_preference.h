/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node_preference.h - which node a thread's requests prefer, where they do not name it.
 *
 * The kernel asks the node of the CPU first, unless a memory policy, a cpuset or the caller
 * says otherwise; and of those no event tells. What can be seen is where a request landed. One
 * that landed elsewhere while the CPU's own node had memory was sent there. A thread with more
 * than a fiftieth of such requests is taken to be under a memory policy, and each of its
 * requests to prefer the node it was served from.
 *
 * validate counts, for its model has at every request the free pages that the kernel had;
 * a free run takes the threads that were found: the table preference.
 *
 * Not counted is what may land elsewhere for other reasons: requests with __GFP_THISNODE,
 * whose node is that of the page they got; those in interrupts, which are not the thread's;
 * and those for DMA and DMA32, zones that a node may not have.
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

/* What validate counts; nothing on a machine of one node. */
struct node_preference {
	struct node_preference_count *threads; /* [pid] or NULL */
	int32_t most;                          /* highest pid that was counted */
};

/* -ENOMEM. */
int node_preference_new(struct node_preference *p, const struct model *m, struct error *err);
void node_preference_free(struct node_preference *p);

/* The node that an alloc asked first, as far as its page, about to be taken, shows. */
uint16_t node_preference_node(const struct model *m, const struct window_event *alloc);

/* A event that is about to run: if it is an alloc, it is counted. */
void node_preference_see(struct node_preference *p, const struct model *m,
			 const struct window_event *event);

/* Write a row of preference for each thread. */
void node_preference_write(const struct node_preference *p, struct output *o);

/*
 * Threads whose requests prefer the node they land on: a bit for each pid, to be freed, or NULL
 * as long as there is none. -ENOMEM, or -EINVAL for a pid that there cannot be.
 */
int node_preference_load(uint64_t **landed, const struct preference_columns *columns, size_t rows,
			 struct error *err);

static inline bool prefers_landed(const uint64_t *landed, int32_t pid)
{
	return landed && (uint32_t)pid < PIDS_MOST && landed[pid / 64] >> pid % 64 & 1;
}

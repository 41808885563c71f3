/* SPDX-License-Identifier: Apache-2.0 */
/*
 * huge.h - page faults that ask for a huge page, under a policy of their own.
 *
 * Such a fault appears on the tape as allocations of pageblock order by one thread. The first asks
 * the thread's own node (__GFP_THISNODE and __GFP_NORETRY, alloc_pages_mpol, 5.4 to 6.18). If it
 * fails and the thread may reclaim, the second asks any node. If both fail, the thread allocates a
 * single zeroed page for each page that it touches, up to its next such fault. These single pages
 * are the fault's group. Other requests of that order, such as khugepaged's, are not changed.
 *
 * The policy's tries (struct huge_plan) run when the recorded tries ran. The possible results:
 *
 *   record        model         result
 *   huge page     huge page     the model uses the recorded place
 *   single pages  single pages  each is served at its own event
 *   huge page     single pages  as many single pages, freed with the huge page
 *   single pages  huge page     the group is swallowed: its pages are those of the huge
 *                               page, which is freed with the last of
 *                               them
 *
 * The table of faults has a fixed size and one entry per hash of a pid. A thread that replaces
 * another thread's entry ends the group of that thread.
 */
#pragma once

#include "model/policy.h"
#include "tape/requests.h"

struct huge_fault {
	int32_t pid;
	frame_nr head;  /* model's huge page that takes the group, or NO_FRAME */
	uint16_t asked; /* pages of the group so far */
	bool waits;     /* the record's second try is pending */
};

/* A huge page of the model that took a group. */
struct huge_group {
	uint16_t live;  /* its pages not freed yet */
	uint16_t fault; /* index of its fault in huge->faults */
	bool open;      /* more pages may follow */
};

struct huge {
	struct model *m;
	struct huge_plan plan;
	struct huge_fault *faults; /* [hash of a thread] */
	struct huge_group *groups; /* [frame of the model >> pageblock_order] */
	bool *pieces;              /* [recorded frame >> pageblock_order] */
};

/* NULL if no policy plans tries. -ENOMEM. */
int huge_new(struct huge **out, struct model *m, struct error *err);

/* The thread's last fault. */
struct huge_fault *huge_fault_of(const struct huge *h, int32_t pid);

/* Whether an alloc is the first or second try of such a fault. */
bool huge_is_try(const struct huge *h, const struct waiting *e);

/*
 * The thread's fault begins, and its last group ends. Returns that group's huge page if no page of
 * it was requested: the caller frees the huge page. Else NO_FRAME.
 */
frame_nr huge_begin(struct huge *h, struct huge_fault *fault, int32_t pid);

/*
 * Make the policy's tries from number `first` to before `end` for a request: the head of a used
 * block of pageblock order, or NO_FRAME. Each try emits an event of the model.
 */
frame_nr huge_alloc(const struct huge *h, struct request *rq, int first, int end);

/* Whether a try may have a block of that node. */
bool huge_may_have(const struct huge *h, const struct request *rq, int node);

/* Count the result of the fault: a local or remote huge page, or why its own node had none. */
void huge_count_success(const struct huge *h, const struct request *rq, frame_nr head);
void huge_count_failure(const struct huge *h, const struct request *rq);

/* The following single pages are the group of this huge page. */
void huge_open(struct huge *h, struct huge_fault *fault, frame_nr head);
/* The thread's group ends: later single pages are not swallowed. */
void huge_close(struct huge *h, struct huge_fault *fault);

/* The page of the model for a request whose group is swallowed, or NO_FRAME. */
frame_nr huge_swallow(struct huge *h, const struct waiting *e);

/* Whether a used page is of a group. */
static inline bool huge_has(const struct huge *h, frame_nr page)
{
	return h->groups[page >> h->m->pageblock_order].live;
}

/* A page of a group is freed: the head of the huge page if it was the last, or NO_FRAME. */
frame_nr huge_give_back(struct huge *h, frame_nr page);

/* Whether the model has the recorded huge page in pieces. */
static inline bool *huge_pieces(const struct huge *h, frame_nr frame)
{
	return &h->pieces[frame >> h->m->pageblock_order];
}

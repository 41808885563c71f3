/* SPDX-License-Identifier: Apache-2.0 */
/*
 * huge.h - faults that ask for a huge page, served by another rule than the record's.
 *
 * Such a fault is seen as allocations of pageblock order by one thread: first on its own node
 * (__GFP_THISNODE and __GFP_NORETRY, alloc_pages_mpol, 5.4 to 6.18), then, if that failed and the
 * thread may reclaim, on any node. If that fails too, single zeroed pages follow, one for each page
 * of the huge page that the thread touches, up to its next such fault. They are the fault's group.
 * Other requests of that order, as khugepaged's, stay as they are.
 *
 * A policy's tries (struct huge_plan) are made when the record made its own. Then
 *
 *   record        model         result
 *   huge page     huge page     the model has it where the record has it
 *   single pages  single pages  they are served as they come
 *   huge page     single pages  it is in pieces: so many single pages, freed with it
 *   single pages  huge page     the group is swallowed: its pages are those of the huge
 *                               page, which is freed with the last of
 *                               them
 *
 * A table of fixed size has one entry per hash of a thread: a thread that takes the entry of
 * another one ends the group of that one.
 */
#pragma once

#include "model/policy.h"
#include "tape/requests.h"

struct huge_fault {
	int32_t pid;
	uint32_t head;  /* model's huge page that takes the group, or NO_FRAME */
	uint16_t asked; /* pages of the group so far */
	bool waits;     /* the record's second try is to come */
};

/* A huge page of the model that took a group. */
struct huge_group {
	uint16_t live;  /* pages of it that are not freed yet */
	uint16_t fault; /* whose it is, in huge->faults */
	bool open;      /* there may be more */
};

struct huge {
	struct model *m;
	struct huge_plan plan;
	struct huge_fault *faults; /* [hash of a thread] */
	struct huge_group *groups; /* [frame of the model >> pageblock_order] */
	bool *pieces;              /* [recorded frame >> pageblock_order] */
};

/* NULL if no policy has another rule. -ENOMEM. */
int huge_new(struct huge **out, struct model *m, struct error *err);
void huge_free(struct huge *h);

/* The thread's last fault. */
struct huge_fault *huge_fault_of(const struct huge *h, int32_t pid);

/* Whether an alloc is a try of such a fault: the first, or the second. */
bool huge_is_try(const struct huge *h, const struct waiting *e);

/*
 * The thread's fault begins, and its last group ends. Returns an empty huge page without a
 * requested page, to be freed; else NO_FRAME.
 */
uint32_t huge_begin(struct huge *h, struct huge_fault *fault, int32_t pid);

/*
 * Make the policy's tries from number `first` to before `end` for a request: the head of a
 * used block of pageblock order, or NO_FRAME. Each is an event of the model.
 */
uint32_t huge_alloc(const struct huge *h, struct request *rq, int first, int end);

/* Whether a try may have a block of that node. */
bool huge_may_have(const struct huge *h, const struct request *rq, int node);

/* How the fault ended: with a huge page near or far; or without, and why the own node had none. */
void huge_count_success(const struct huge *h, const struct request *rq, uint32_t head);
void huge_count_failure(const struct huge *h, const struct request *rq);

/* The group that follows is the huge page's. */
void huge_open(struct huge *h, struct huge_fault *fault, uint32_t head);
/* There is no group: the huge page is the recorded one. */
void huge_close(struct huge *h, struct huge_fault *fault);

/* The page of the model for a request whose group is swallowed, or NO_FRAME. */
uint32_t huge_swallow(struct huge *h, const struct waiting *e);

/* Whether a used page is of a group. */
static inline bool huge_has(const struct huge *h, uint32_t page)
{
	return h->groups[page >> h->m->pageblock_order].live;
}

/* A page of a group is freed: the head of the huge page if it was the last, or NO_FRAME. */
uint32_t huge_give_back(struct huge *h, uint32_t page);

/* Whether the model has the recorded huge page in pieces. */
static inline bool *huge_pieces(const struct huge *h, uint32_t frame)
{
	return &h->pieces[frame >> h->m->pageblock_order];
}

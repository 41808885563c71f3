/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text_fields.h - the fields of an event, as the kernel and libtraceevent print them.
 *
 * "pfn=0x5e4454 order=1 migratetype=2 gfp_flags=GFP_KERNEL|__GFP_COMP", and the few tracepoints
 * that print words between their values. Names become numbers again: gfp flags, zones, results.
 */
#pragma once

#include "shapes.h"
#include "text_line.h"

/* A name that stands for several gfp flags. */
struct gfp_group {
	const char *name;  /* "GFP_NOFS" */
	const char *flags; /* "__GFP_DIRECT_RECLAIM|__GFP_KSWAPD_RECLAIM|__GFP_IO" */
};

/* The names of gfp flags, and the masks that were read. */
struct gfp_words;

int gfp_words_new(struct gfp_words **out, struct error *err);
void gfp_words_free(struct gfp_words *words);

/*
 * Learn the groups of a release, and the flag of each bit of its numbers ("GFP_KERNEL|0x2000000").
 * Until then masks are only remembered.
 */
void gfp_words_learn(struct gfp_words *words, const struct gfp_group *groups, size_t nr,
		     const char *const bits[32]);

/* The first name that is none, in the masks that were read; NULL: there is none. */
const char *gfp_words_unknown(const struct gfp_words *words);

/*
 * The values of `fields` into `event`, whose tracepoint is set. A value that is no number and no
 * known name is left out.
 */
void text_fields_read(struct event_values *event, const struct shapes *shapes, struct words fields,
		      struct gfp_words *gfp);

/* The value of pageblock_order= in an event mm_page_alloc_extfrag, or -1. */
int text_pageblock_order(struct words fields);

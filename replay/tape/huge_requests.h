/* SPDX-License-Identifier: Apache-2.0 */
/*
 * huge_requests.h - how many requests for a huge page got one: table huge_request.
 *
 * A request that failed on the tape fails in a free run, too: its page would never be freed. What
 * counts there is whether the model had a block for it.
 */
#pragma once

#include "model/model.h"
#include "output.h"

#include <stdbool.h>

struct waiting;

struct huge_requests {
	struct {
		uint64_t asked, got;
	} of[NR_PAGE_ORDERS];
};

/* Whether a request has the flags that every one for a huge page has (GFP_TRANSHUGE_LIGHT). */
bool is_huge_request(const struct waiting *e);

/*
 * Whether a fault's request is followed by another: it failed on its own node, and may reclaim
 * (alloc_pages_vma, 5.4; alloc_pages_mpol, 6.7 to 7.3).
 */
bool is_followed(uint32_t gfp_flags, bool got);

/* Count a request for a huge page; `got`: there was a block. */
void huge_requests_count(struct huge_requests *h, int order, bool got);
/* Count a request, if it is for a huge page, and the last one of its fault. */
void huge_requests_add(struct huge_requests *h, const struct waiting *e, bool got);

/* The rows of huge_request. */
void huge_requests_write(const struct huge_requests *h, struct output *out);

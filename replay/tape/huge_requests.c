// SPDX-License-Identifier: Apache-2.0
#include "huge_requests.h"

#include "requests.h"

/* GFP_TRANSHUGE_LIGHT: the flags that no kernel leaves out. */
#define GFP_HUGE (GFP_HIGHMEM | GFP_MOVABLE | GFP_COMP | GFP_NOMEMALLOC)

bool is_huge_request(const struct waiting *e)
{
	return e->order && (e->gfp_flags & GFP_HUGE) == GFP_HUGE;
}

void huge_requests_count(struct huge_requests *h, int order, bool got)
{
	h->of[order].asked++;
	h->of[order].got += got;
}

bool is_followed(uint32_t gfp_flags, bool got)
{
	const uint32_t first = GFP_THISNODE | GFP_NORETRY | GFP_DIRECT_RECLAIM;

	return !got && (gfp_flags & first) == first;
}

void huge_requests_add(struct huge_requests *h, const struct waiting *e, bool got)
{
	if (is_huge_request(e) && !is_followed(e->gfp_flags, e->frame != NO_FRAME))
		huge_requests_count(h, e->order, got);
}

void huge_requests_write(const struct huge_requests *h, struct output *out)
{
	for (int order = 0; order < NR_PAGE_ORDERS; order++) {
		struct huge_request_columns *columns;
		size_t i;

		if (!h->of[order].asked)
			continue;
		i = output_row(out, &columns);
		columns->page_order[i] = (uint8_t)order;
		columns->asked[i] = h->of[order].asked;
		columns->got[i] = h->of[order].got;
	}
}

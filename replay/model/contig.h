/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contig.h - contiguous single pages that are freed together.
 *
 * Since 7.2 they reach the lists as the largest aligned blocks that fit, in ascending order
 * (free_prepared_contig_range). Up to 7.1 each page was freed by itself.
 */
#pragma once

#include "model.h"

/* The order of the block at `frame`, the first of `pages` contiguous pages. */
static inline int contig_order(const struct model *m, frame_nr frame, uint32_t pages)
{
	int order = 0;

	while (order < m->max_order && !(frame & ((2u << order) - 1)) && pages >> (order + 1))
		order++;
	return order;
}

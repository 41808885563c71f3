/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machinery.h - a machine on which the model reclaims: one CPU and one node, a zone DMA of 8
 * pageblocks of 512 pages from pfn 0, and a zone NORMAL of 32 from pfn 16384.
 */
#pragma once

#include "freerun/serve.h"
#include "reclaim/reclaim_run.h"
#include "toy.h"

enum { BLOCK = 512, DMA_PAGES = 8 * BLOCK, NORMAL_PAGES = 32 * BLOCK, NORMAL_PFN = 16384 };
enum { DMA, NORMAL };
#define MS 1000000ull

struct machinery {
	struct toy toy;
	struct serve serve;
	struct reclaim_run feedback;
	uint64_t anomalies[NR_ANOMALY_KIND];
};

/* A machine under a policy; every page is used, watermarks are those given. */
void machinery_new(struct machinery *w, const char *kernel, const char *policy);
void machinery_start(struct machinery *w);
void machinery_free(struct machinery *w);

/* Free pages in whole pageblocks, or spread as single pages. */
void make_free(struct machinery *w, int zone, int pages, bool spread);

/* Every second page of zone NORMAL, from its end, was reclaimed on the record: 1 ms apart. */
void queue_pages(struct machinery *w, int pages, uint64_t first_ts);

const struct counters *counters(const struct machinery *w, int zone);

// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_kpageflags.c - page flags: orders, up to 3 zones, then the words of the file.
 *
 * Free blocks must lie in their zone, aligned and ascending.
 */
#include "fuzz_file.h"
#include "proc/kpageflags.h"
#include "tables.h"

#include <assert.h>

enum { MAX_ZONES = 3 };

static void check_blocks(const struct batch *batch, const struct page_layout *layout)
{
	const struct block_guess_columns *rows = (const struct block_guess_columns *)batch->slots;

	for (size_t i = 0; i < batch->nr; i++) {
		const struct zone_span *zone = &layout->zones[rows->node[i]];
		uint64_t pages = 1ull << rows->page_order[i];

		assert(rows->page_order[i] <= layout->max_order && rows->pfn[i] % pages == 0);
		assert(rows->pfn[i] >= zone->start_pfn);
		assert(rows->pfn[i] + pages <= zone->start_pfn + zone->spanned);
		assert(!i || rows->node[i] != rows->node[i - 1] || rows->pfn[i] > rows->pfn[i - 1]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct zone_span zones[MAX_ZONES];
	struct page_layout layout = {.zones = zones};
	struct input in = {data, size};
	struct batch *blocks, *pageblocks;
	struct error err;

	if (!fuzz_dir[0])
		fuzz_make_dir("fuzz_kpageflags");
	layout.pageblock_order = (int)take(&in, 1) - 1;
	layout.max_order = (int)take(&in, 1) - 1;
	layout.nr_zones = (int)(take(&in, 1) % (MAX_ZONES + 1));
	for (int z = 0; z < layout.nr_zones; z++) {
		/* Mostly small places; the node is the number of the zone. */
		size_t bytes = take(&in, 1) < 240 ? 1 : 8;

		zones[z] = (struct zone_span){(uint16_t)z, 1, take(&in, bytes), take(&in, bytes)};
	}
	fuzz_write("kpageflags", in.data, in.left);
	if (free_blocks(fuzz_path("kpageflags"), &layout, &blocks, &pageblocks, &err))
		return 0;
	check_blocks(blocks, &layout);
	batch_free(blocks);
	batch_free(pageblocks);
	return 0;
}

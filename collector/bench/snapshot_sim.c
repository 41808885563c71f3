// SPDX-License-Identifier: Apache-2.0
/*
 * snapshot_sim - exact snapshots of a machine that is too large to have: the real programs over a
 * simulated page allocator (tests/snapshot/precopy_kernel.h). One JSON object on stdout.
 *
 *   snapshot_sim GIB NODES CPUS BLOCKS CHANGES_PER_MS ENTRY_NS SNAPSHOTS
 *
 * BLOCKS: free blocks of each node. CHANGES_PER_MS: allocations and frees of all CPUs together.
 * ENTRY_NS: measured time for an entry of a list. It assumes that the CPUs wake up within 15 us,
 * that each of them reads its PCPs as fast as one CPU alone, and that interrupts change nothing
 * while the CPUs are held. Only a struct page is not in a cache. Nodes have no distance: a real
 * read of another node's memory is slower.
 */
#include "precopy_kernel.h"

#include <stdio.h>
#include <stdlib.h>

enum {
	PAGES_OF_GIB = 1 << 18,
	PCP_PAGES = 500,
	VISIT_NS = 20, /* what a visit costs in the simulation besides its read */
};

static int compare(const void *left, const void *right)
{
	uint64_t l = *(const uint64_t *)left, r = *(const uint64_t *)right;

	return l < r ? -1 : l > r;
}

/* The smallest value that 99.9 % of them do not exceed, in ms. */
static double percentile(uint64_t *values, uint64_t nr)
{
	if (!nr)
		return 0;
	qsort(values, nr, sizeof(*values), compare);
	return (double)values[(nr - 1) - nr / 1000] / 1e6;
}

int main(int argc, char **argv)
{
	static uint64_t holds[1 << 22], locks[1 << 16];
	uint64_t nr_holds = 0, nr_locks = 0;
	unsigned int exact = 0, meetings = 0, images = 0, snapshots;
	struct sim_options options = {.pcp_pages = PCP_PAGES, .cross = 0.001, .max_us = 200};
	uint64_t entries = 0;

	if (argc != 8) {
		fprintf(stderr, "usage: snapshot_sim GIB NODES CPUS BLOCKS CHANGES_PER_MS ENTRY_NS "
				"SNAPSHOTS\n");
		return 2;
	}
	options.zones = (uint32_t)atoi(argv[2]);
	options.pages = strtoull(argv[1], NULL, 10) * PAGES_OF_GIB / options.zones;
	options.cpus = (uint32_t)atoi(argv[3]);
	options.free_blocks = strtoull(argv[4], NULL, 10);
	options.changes_per_ms = atof(argv[5]);
	options.read_ns = (uint32_t)atoi(argv[6]) - VISIT_NS;
	snapshots = (unsigned int)atoi(argv[7]);
	options.seed = 1;
	for (unsigned int i = 0; i < snapshots; i++) {
		struct snapshot *s = sim_new(&options);
		struct snapshot_result result = {.zones = s->zones, .nr_zones = options.zones};

		options.seed++;
		if (precopy_take(s, 0, &result, NULL))
			return 1;
		exact += result.exact;
		meetings += (unsigned int)result.meetings;
		images += (unsigned int)result.attempts;
		for (uint32_t h = 0; h < result.nr_holds && nr_holds < 1 << 22; h++)
			holds[nr_holds++] = s->holds[h].ns;
		for (uint32_t l = 0; l < result.nr_locks && nr_locks < 1 << 16; l++)
			locks[nr_locks++] = s->locks[l];
		for (uint32_t z = 0; z < options.zones; z++)
			entries += s->zones[z].free_blocks;
		for (int t = 0; t < SNAPSHOT_TABLES; t++)
			batch_free(result.tables[t]);
		sim_free();
	}
	printf("{\"snapshots\": %u, \"exact\": %u, \"images\": %u, \"meetings\": %u, "
	       "\"free_blocks\": %llu, ",
	       snapshots, exact, images, meetings,
	       (unsigned long long)(snapshots ? entries / snapshots : 0));
	printf("\"locks\": %llu, \"lock_p999_ms\": %.4f, ", (unsigned long long)nr_locks,
	       percentile(locks, nr_locks));
	printf("\"holds\": %llu, \"hold_p999_ms\": %.4f, ", (unsigned long long)nr_holds,
	       percentile(holds, nr_holds));
	printf("\"longest_lock_ms\": %.4f, \"longest_hold_ms\": %.4f}\n",
	       nr_locks ? (double)locks[nr_locks - 1] / 1e6 : 0,
	       nr_holds ? (double)holds[nr_holds - 1] / 1e6 : 0);
	return 0;
}

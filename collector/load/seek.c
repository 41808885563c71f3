// SPDX-License-Identifier: Apache-2.0
/*
 * seek.c - the cost of one access: random writes of 8 bytes, for each node of a CPU and of memory.
 *
 * The memory is faulted in before. Each figure is the median of ROUNDS rounds.
 */
#include <errno.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "load.h"

enum { MOST_NODES = 16, ROUNDS = 5, ACCESSES = 1 << 16 };

struct node {
	int id;
	cpu_set_t cpus; /* empty: memory alone */
	bool has_memory;
};

/* Numbers of a list as 0-3,8; -1 for none. */
static int parse_list(const char *file, cpu_set_t *set)
{
	FILE *opened = fopen(file, "re");
	int first, last, most = -1;
	char mark;

	CPU_ZERO(set);
	while (opened && fscanf(opened, "%d", &first) == 1) {
		last = first;
		if (fscanf(opened, "%c", &mark) == 1 && mark == '-' &&
		    fscanf(opened, "%d", &last) == 1)
			(void)!fscanf(opened, "%c", &mark);
		for (most = last; first <= last && first < CPU_SETSIZE; first++)
			CPU_SET((size_t)first, set);
	}
	if (opened)
		fclose(opened);
	return most;
}

static int find_nodes(struct node *nodes)
{
	cpu_set_t online, with_memory;
	char file[64];
	int nr = 0;

	parse_list("/sys/devices/system/node/has_memory", &with_memory);
	if (parse_list("/sys/devices/system/node/online", &online) < 0) { /* no NUMA */
		sched_getaffinity(0, sizeof(cpu_set_t), &nodes[0].cpus);
		nodes[0].has_memory = true;
		return 1;
	}
	for (int id = 0; id < CPU_SETSIZE && nr < MOST_NODES; id++) {
		if (!CPU_ISSET((size_t)id, &online))
			continue;
		snprintf(file, sizeof(file), "/sys/devices/system/node/node%d/cpulist", id);
		parse_list(file, &nodes[nr].cpus);
		nodes[nr].id = id;
		nodes[nr++].has_memory = CPU_ISSET((size_t)id, &with_memory);
	}
	return nr;
}

/* Distance of the memory of the node number `to` among the online ones; 10: the same. */
static int distance(const struct node *from, int to)
{
	char file[64];
	int found = to ? 20 : 10;
	FILE *opened;

	snprintf(file, sizeof(file), "/sys/devices/system/node/node%d/distance", from->id);
	opened = fopen(file, "re");
	for (int i = 0; opened && i <= to; i++)
		if (fscanf(opened, "%d", &found) != 1)
			break;
	if (opened)
		fclose(opened);
	return found;
}

/* Bytes of this process in huge pages. */
static size_t huge_bytes(void)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "re");
	size_t kib = 0;
	char line[128];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "AnonHugePages: %zu", &kib) == 1)
			break;
	if (file)
		fclose(file);
	return kib << 10;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* ns per access. The numbers of a generator choose the places: no table is read beside them. */
static double measure(struct load *load, volatile uint64_t *area, size_t words, double seconds)
{
	uint64_t x = load->first_seed * 2654435761u + 1;
	double rounds[ROUNDS];

	for (int r = 0; r < ROUNDS; r++) {
		uint64_t begin = now_ns(), until = begin + (uint64_t)(seconds / ROUNDS * 1e9), end;
		unsigned long accesses = 0;

		do {
			for (int i = 0; i < ACCESSES; i++) {
				x = x * 6364136223846793005u + 1442695040888963407u;
				area[(x >> 33) % words] = x;
			}
			accesses += ACCESSES;
			end = now_ns();
		} while (end < until && !ended);
		rounds[r] = (double)(end - begin) / (double)accesses;
	}
	qsort(rounds, ROUNDS, sizeof(rounds[0]), compare);
	return rounds[ROUNDS / 2];
}

/* The cost with pages of one size; 0 if the memory cannot be had as such. */
static double cost(struct load *load, int node, bool huge, double seconds)
{
	size_t size = load->memory / HUGE * HUGE, before = huge_bytes();
	unsigned long mask = 1ul << node;
	char *area = map(size + HUGE);
	char *first = (char *)(((uintptr_t)area + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
	double found = 0;

	if (syscall(SYS_mbind, first, size, MPOL_BIND, &mask, sizeof(mask) * 8, 0) &&
	    errno != ENOSYS)
		die("mbind to node %d", node);
	madvise(first, size, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	for (size_t at = 0; at < size; at += PAGE)
		first[at] = 1;
	if (!huge || huge_bytes() - before > size / 10 * 9)
		found = measure(load, (volatile uint64_t *)first, size / sizeof(uint64_t), seconds);
	munmap(area, size + HUGE);
	return found;
}

static void seek(struct load *load)
{
	struct node nodes[MOST_NODES];
	int nr = find_nodes(nodes), pairs = 0;

	for (int c = 0; c < nr; c++)
		for (int m = 0; m < nr; m++)
			pairs += CPU_COUNT(&nodes[c].cpus) && nodes[m].has_memory;
	for (int c = 0; c < nr; c++) {
		if (!CPU_COUNT(&nodes[c].cpus) ||
		    sched_setaffinity(0, sizeof(cpu_set_t), &nodes[c].cpus))
			continue;
		for (int m = 0; m < nr && load->shared->nr_costs < MOST_COSTS; m++) {
			struct seek_cost *to = &load->shared->costs[load->shared->nr_costs];
			double seconds = (load->end - load->begin) / pairs / 2.5;

			if (!nodes[m].has_memory)
				continue;
			to->cpu_node = nodes[c].id;
			to->memory_node = nodes[m].id;
			to->distance = distance(&nodes[c], m);
			to->base_ns = cost(load, nodes[m].id, false, seconds);
			to->thp_ns = cost(load, nodes[m].id, true, seconds);
			load->shared->nr_costs++;
		}
	}
}

const struct load_kind seek_load = {
	.name = "seek",
	.doc = "cost of one access by distance of the node and size of the page",
	.keeps = "random writes of 8 bytes to memory of huge and of single pages, from the CPUs of "
		 "each node to the memory of each; faults are not measured; median of 5 rounds",
	.leaves_out = "the machines of 2018; a machine with one node has no remote access",
	.sampled = "nothing: prints ns per access, and the option --cost of `report numa.thp`",
	.roles = {{seek, "seek", 1}},
};

// SPDX-License-Identifier: Apache-2.0
#include "summary.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_CLASSES = 3 };

static struct {
	uint64_t nr, bytes, hash; /* the hash does not depend on the order of the files */
} files;

/* Count a file: its name and size. What the load mounted or swaps on is not of its work. */
static int count_file(const char *path, const struct stat *found, int type, struct FTW *where)
{
	uint64_t hash = 14695981039346656037u ^ (uint64_t)found->st_size;

	if (type != FTW_F || !strcmp(path, "./swap"))
		return 0;
	for (; *path; path++)
		hash = (hash ^ (unsigned char)*path) * 1099511628211u;
	files.nr++;
	files.bytes += (uint64_t)found->st_size;
	files.hash += hash;
	return 0;
}

void write_samples(const struct shared *shared, int processes, const char *file)
{
	FILE *to = fopen(file, "ae");

	if (!to)
		die("%s", file);
	for (int p = 0; p < processes; p++)
		for (uint32_t i = 0; i < shared->samples[p].nr; i++) {
			const struct sample *row = &shared->samples[p].rows[i];

			fprintf(to, "%s,%lu,%lu,%u,", sample_names[row->name], row->ts, row->ns,
				row->cpu);
			if (row->node >= 0)
				fprintf(to, "%d", row->node);
			fputc(',', to);
			if (row->order >= 0)
				fprintf(to, "%d", row->order);
			fprintf(to, ",%u\n", row->flags);
		}
	if (fclose(to))
		die("%s", file);
}

struct figures {
	uint64_t *ns;
	size_t nr;
	double mean;
};

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The durations of a name and order, sorted. */
static struct figures collect(const struct shared *shared, int processes, int name, int order)
{
	struct figures found = {0};
	size_t room = 0;

	for (int p = 0; p < processes; p++)
		room += shared->samples[p].nr;
	found.ns = calloc(room + 1, sizeof(*found.ns));
	if (!found.ns)
		die("memory for %zu samples", room);
	for (int p = 0; p < processes; p++)
		for (uint32_t i = 0; i < shared->samples[p].nr; i++) {
			const struct sample *row = &shared->samples[p].rows[i];

			if (row->name != name || row->order != order)
				continue;
			found.ns[found.nr++] = row->ns;
			found.mean += (double)row->ns;
		}
	qsort(found.ns, found.nr, sizeof(*found.ns), compare);
	found.mean /= found.nr ? (double)found.nr : 1;
	return found;
}

static double us(const struct figures *of, unsigned int percent)
{
	return (double)of->ns[(of->nr * percent + 99) / 100 - 1] / 1e3;
}

static void print_latency(const struct shared *shared, int processes, bool json)
{
	static const char *const text = "%-10s %5s %8zu %10.1f %10.1f %10.1f %10.1f %10.1f\n";
	static const char *const object =
		"%s{\"name\": \"%s\", \"page_order\": %s, \"nr\": %zu, \"mean_us\": %.1f, "
		"\"p50_us\": %.1f, \"p95_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f}";
	bool first = true;

	for (int name = 0; name < NR_SAMPLE_NAMES; name++)
		for (int order = -1; order <= HUGE_ORDER; order++) {
			struct figures f = collect(shared, processes, name, order);
			char words[8] = "";

			if (order >= 0)
				snprintf(words, sizeof(words), "%d", order);
			if (f.nr && json)
				printf(object, first ? "" : ", ", sample_names[name],
				       order < 0 ? "null" : words, f.nr, f.mean / 1e3, us(&f, 50),
				       us(&f, 95), us(&f, 99), us(&f, 100));
			else if (f.nr && first)
				printf("\n%-10s %5s %8s %10s %10s %10s %10s %10s\n", "sample",
				       "order", "number", "mean us", "p50 us", "p95 us", "p99 us",
				       "max us");
			if (f.nr && !json)
				printf(text, sample_names[name], words, f.nr, f.mean / 1e3,
				       us(&f, 50), us(&f, 95), us(&f, 99), us(&f, 100));
			first &= !f.nr;
			free(f.ns);
		}
}

/* The class of a pair: the rank of its distance among those of the CPUs' node, at most 2, as in
 * queries/numa/thp.sql. */
static int class_of(const struct shared *shared, const struct seek_cost *of)
{
	int rank = 0;

	for (int i = 0; i < shared->nr_costs; i++) {
		const struct seek_cost *near = &shared->costs[i];
		bool is_new = near->cpu_node == of->cpu_node && near->distance < of->distance;

		for (const struct seek_cost *c = shared->costs; c < near; c++)
			is_new &= c->cpu_node != near->cpu_node || c->distance != near->distance;
		rank += is_new;
	}
	return rank < MOST_CLASSES - 1 ? rank : MOST_CLASSES - 1;
}

/* The mean cost of a class; 0: unknown. */
static double mean_cost(const struct shared *shared, int class, bool huge)
{
	double sum = 0;
	int nr = 0;

	for (int i = 0; i < shared->nr_costs; i++) {
		double ns = huge ? shared->costs[i].thp_ns : shared->costs[i].base_ns;

		if (ns > 0 && class_of(shared, &shared->costs[i]) == class) {
			sum += ns;
			nr++;
		}
	}
	return nr ? sum / nr : 0;
}

static void print_costs(const struct shared *shared, bool json)
{
	double base = mean_cost(shared, 0, true);
	char list[128] = "";
	int size = 0;

	for (int i = 0; i < 2 * MOST_CLASSES; i++) {
		double ns = mean_cost(shared, i / 2, i % 2 == 0), more = 100 * (ns / base - 1);

		size += snprintf(list + size, sizeof(list) - (size_t)size, "%s", i ? "," : "");
		if (ns > 0 && base > 0) /* the report takes no negative cost */
			size += snprintf(list + size, sizeof(list) - (size_t)size, "%.0f",
					 more > 0 ? more : 0);
		else
			size += snprintf(list + size, sizeof(list) - (size_t)size, "-");
	}
	if (!json)
		printf("\n%8s %11s %8s %8s %8s\n", "CPU node", "memory node", "distance", "THP ns",
		       "4k ns");
	for (int i = 0; i < shared->nr_costs; i++) {
		const struct seek_cost *c = &shared->costs[i];

		printf(json ? "%s{\"cpu_node\": %d, \"memory_node\": %d, \"distance\": %d, "
			      "\"thp_ns\": "
			      "%.2f, \"base_ns\": %.2f}"
			    : "%s%8d %11d %8d %8.2f %8.2f\n",
		       json && i ? ", " : "", c->cpu_node, c->memory_node, c->distance, c->thp_ns,
		       c->base_ns);
	}
	if (json)
		printf("], \"cost\": \"%s\", \"remote\": %s", list,
		       mean_cost(shared, 1, false) > 0 ? "true" : "false");
	else
		printf("\npagetape report numa.thp --cost %s T.tape\n", list);
	if (!json && mean_cost(shared, 1, false) == 0)
		printf("remote: refused: this machine has one node with memory and CPUs\n");
	if (!json && base == 0)
		printf("THP: refused: the kernel gave no huge pages; see "
		       "/sys/kernel/mm/transparent_hugepage/enabled\n");
}

static unsigned long left_out(const struct shared *shared, int processes)
{
	unsigned long sum = 0;

	for (int p = 0; p < processes; p++)
		sum += shared->samples[p].left_out;
	return sum;
}

void print_summary(const struct load_kind *kind, const struct load *load, int processes, bool json)
{
	const struct shared *shared = load->shared;
	double seconds = now() - load->begin;

	nftw(".", count_file, 16, FTW_PHYS | FTW_MOUNT);
	if (json) {
		printf("{\"load\": \"%s\", \"seed\": %u, \"memory_mb\": %lu, \"threads\": %d, "
		       "\"seconds\": %.2f, \"complete\": %s, \"note\": \"%s\", \"files\": {\"nr\": "
		       "%lu, "
		       "\"bytes\": %lu, \"tree\": \"%016lx\"}, \"samples_left_out\": %lu, "
		       "\"latency\": [",
		       kind->name, load->first_seed, load->memory / MIB, load->threads, seconds,
		       shared->cut ? "false" : "true", load->note, files.nr, files.bytes,
		       files.hash, left_out(shared, processes));
		print_latency(shared, processes, true);
		if (kind == &seek_load) {
			printf("], \"costs\": [");
			print_costs(shared, true);
			puts("}");
			return;
		}
		puts("]}");
		return;
	}
	printf("%s: %.1f s, %lu MB, %d thread%s, seed %u", kind->name, seconds, load->memory / MIB,
	       load->threads, load->threads == 1 ? "" : "s", load->first_seed);
	if (files.nr)
		printf("; %lu files, %.1f MB, tree %016lx", files.nr, (double)files.bytes / 1e6,
		       files.hash);
	printf("%s%s%s\n", load->note[0] ? "; " : "", load->note,
	       shared->cut ? "; the time was too short for the fixed work: --seconds" : "");
	print_latency(shared, processes, false);
	if (left_out(shared, processes))
		printf("%lu samples left out: each process keeps %d\n", left_out(shared, processes),
		       SAMPLES_EACH);
	if (kind == &seek_load)
		print_costs(shared, false);
}

void print_loads(const struct load_kind *const *kinds)
{
	printf("{\"loads\": [");
	for (int i = 0; kinds[i]; i++)
		printf("%s{\"name\": \"%s\", \"doc\": \"%s\", \"keeps\": \"%s\", \"leaves_out\": "
		       "\"%s\", \"sampled\": \"%s\"}",
		       i ? ", " : "", kinds[i]->name, kinds[i]->doc, kinds[i]->keeps,
		       kinds[i]->leaves_out, kinds[i]->sampled);
	puts("]}");
}

// SPDX-License-Identifier: Apache-2.0
/*
 * load NAME SECONDS [DIRECTORY] - a load on the page allocator during a recording.
 *
 * NAME is a load, or several joined by '+', which run beside each other:
 *
 *   storm    on every CPU a process that maps 1 MiB, touches it and unmaps it
 *   grow     two processes that grow to 700 MiB and shrink again, two with file I/O
 *   pipes    pipe buffers, which cannot be moved, filled and emptied: 800 MiB, or half of
 *            the available memory
 *   extfrag  more small files than memory holds, read at random, amid short-lived
 *            processes, directory entries, pipe buffers and transparent huge pages
 *   pressure two processes that need more memory than there is and swap, amid files,
 *            directory entries, short-lived processes and pipe buffers
 *   huge     the same with transparent huge pages
 *   files    more small files than memory holds, written and read at random
 *   slab     directory entries and open files: slab pages, reclaimable and not
 *   sockets  unread data in sockets, which cannot be moved
 *   forks    short-lived processes, some with many page tables
 *   tmpfs    files in memory, which can be swapped, with holes
 *   hugetlb  a pool of huge pages that grows and shrinks, mapped in part (root), amid pipes
 *   thp      transparent huge pages, unmapped in pieces
 *   compaction  compaction of all memory every 100 ms (root), amid memory with holes
 *   hog      pins memory until MB (in place of SECONDS) are left, then prints a line
 *            and holds the memory until it is terminated
 *
 * The files stay in DIRECTORY: a quarter of a gigabyte for `grow`, at most one and a half times
 * the available memory for the others. Every process ends after SECONDS, or with the first
 * process. If memory runs out, the OOM killer picks these processes first.
 */
#define _GNU_SOURCE
#include "load.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void on_signal(int number)
{
	(void)number;
	ended = 1;
}

/* Pin memory until `left` bytes are available. */
static int hog(size_t left)
{
	size_t size = available();
	char *area;

	if (size > left) {
		size = (size - left) & ~(2 * MIB - 1);
		area = map(size);
		madvise(area, size, MADV_HUGEPAGE);
		for (size_t i = 0; i < size && !ended; i += PAGE)
			area[i] = 1;
	}
	puts("ready");
	fflush(stdout);
	while (!ended)
		pause();
	return 0;
}

static void spawn(struct load *load, const struct load_roles *of, unsigned int seed, int cpu)
{
	pid_t parent = getpid(), child = fork();

	if (child < 0)
		die("fork");
	if (child)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	if (cpu >= 0) {
		cpu_set_t set;

		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
		sched_setaffinity(0, sizeof(set), &set);
	}
	load->seed = seed;
	if (of->names[seed])
		prctl(PR_SET_NAME, of->names[seed]);
	of->roles[seed](load);
	_exit(0);
}

/* Start the processes of the load of that name. */
static bool start(struct load *load, const char *name)
{
	const struct load_roles *found = find_load(name);

	if (!found)
		return false;
	if (found->per_cpu)
		for (int cpu = 0; cpu < (int)sysconf(_SC_NPROCESSORS_ONLN); cpu++)
			spawn(load, found, 0, cpu);
	else
		for (unsigned int r = 0; found->roles[r]; r++)
			spawn(load, found, r, -1);
	return true;
}

int main(int argc, char **argv)
{
	const struct rlimit files = {65536, 65536};
	struct load load = {.available = available()};
	struct sigaction action = {.sa_handler = on_signal};
	FILE *first;
	int status, failed = 0;

	if (argc < 3) {
		fprintf(stderr, "usage: load NAME SECONDS [DIRECTORY]\n");
		return 2;
	}
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	setrlimit(RLIMIT_NOFILE, &files);
	first = fopen("/proc/self/oom_score_adj", "w");
	if (first) {
		fputs("1000", first);
		fclose(first);
	}
	if (!strcmp(argv[1], "hog"))
		return hog(strtoul(argv[2], NULL, 10) * MIB);
	if (argc > 3 && chdir(argv[3]))
		die(argv[3]);
	load.end = now() + atof(argv[2]);
	if (!strcmp(argv[1], "extfrag") && nice(5) < 0) /* the recorder has to keep up */
		die("nice");
	for (char *name = strtok(argv[1], "+"); name; name = strtok(NULL, "+"))
		if (!start(&load, name)) {
			fprintf(stderr, "load: no load named '%s'\n", name);
			return 2;
		}
	while (!ended && (wait(&status) > 0 || errno == EINTR))
		failed |= WIFEXITED(status) && WEXITSTATUS(status);
	return failed;
}

// SPDX-License-Identifier: Apache-2.0
/*
 * fioscale.c - writers of small files, then readers, then faults of huge pages beside the readers.
 *
 * The writing is a fixed work, and takes at most WRITE_SHARE of the time. The reading warms up for
 * as long, at most WARM_SHARE. All of the rest are faults: each process maps its share of the
 * budget, touches the first half of it in steps of a huge page, unmaps it, and begins again.
 */
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "load.h"

#define WRITE_SHARE 0.4
#define WARM_SHARE  0.2
enum { WRITERS = 4, FILE_PAGES = 16, IN_DIRECTORY = 1024, PROBE = 64 };

static void file_name(char *name, size_t size, int writer, unsigned int file)
{
	snprintf(name, size, "io.%d.%u/%u", writer, file / IN_DIRECTORY, file);
}

static void write_all(struct load *load, unsigned int nr, char *page)
{
	char name[64];

	for (unsigned int i = 0; i < nr; i++) {
		int fd;

		if (ended || now() > load->begin + WRITE_SHARE * (load->end - load->begin)) {
			load->shared->cut = true;
			return;
		}
		file_name(name, sizeof(name), load->index, i);
		if (i % IN_DIRECTORY == 0) {
			*strrchr(name, '/') = '\0';
			if (mkdir(name, 0700))
				die("%s", name);
			file_name(name, sizeof(name), load->index, i);
		}
		fd = open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		if (fd < 0)
			die("%s", name);
		for (int p = 0; p < FILE_PAGES; p++)
			if (write(fd, page, PAGE) != (ssize_t)PAGE)
				die("%s", name);
		close(fd);
	}
}

static void io(struct load *load)
{
	unsigned int nr = (unsigned int)(load->memory / 2 * 3 / (WRITERS * FILE_PAGES * PAGE));
	char name[64], *page = map(PAGE);

	write_all(load, nr, page);
	wait_until_made(load, WRITERS);
	while (!over(load)) {
		int fd;

		file_name(name, sizeof(name), rand_r(&load->seed) % WRITERS,
			  (unsigned int)rand_r(&load->seed) % nr);
		fd = open(name, O_RDONLY | O_CLOEXEC);
		if (fd < 0) { /* the writing was cut */
			usleep(1000);
			continue;
		}
		for (int p = 0; p < FILE_PAGES; p++)
			if (pread(fd, page, PAGE, rand_r(&load->seed) % FILE_PAGES * (long)PAGE) <
			    0)
				die("%s", name);
		close(fd);
	}
}

static int16_t node_of(char *page)
{
	int node = -1;

	if (syscall(SYS_get_mempolicy, &node, NULL, 0, page, MPOL_F_NODE | MPOL_F_ADDR))
		return -1;
	return (int16_t)node;
}

/* The first touch of 2 MiB, then a write to all of it. It is a huge page if a page far from the
 * touched one is there, too. */
static void fault(struct load *load, char *chunk)
{
	struct sample about = {.flags = HUGE_ASKED};
	uint64_t begin = now_ns(), touched;
	unsigned char there = 0;

	*(volatile char *)chunk = 1;
	touched = now_ns();
	mincore(chunk + PROBE * PAGE, PAGE, &there);
	memset(chunk, 1, HUGE);
	about.ns = now_ns() - begin;
	if (there & 1) {
		about.flags |= HUGE_GOT;
		about.order = HUGE_ORDER;
	}
	about.node = node_of(chunk);
	add_sample(load, FAULT, begin, about);
	about.ns = touched - begin;
	add_sample(load, TOUCH, begin, about);
}

static void fault_all(struct load *load)
{
	size_t size = load->memory / 4 * 3 / (size_t)load->threads / HUGE * HUGE;
	double warm = load->begin + (WRITE_SHARE + WARM_SHARE) * (load->end - load->begin);

	prctl(PR_SET_NAME, "waiting");
	while (!over(load)) {
		double made = (double)atomic_load(&load->shared->made) / 1e9;

		if (made > 0 && (now() > warm || now() > made + made - load->begin))
			break;
		usleep(1000);
	}
	if (size < 2 * HUGE)
		size = 2 * HUGE;
	while (!over(load)) {
		char *area = map(size + HUGE);
		char *first = (char *)(((uintptr_t)area + HUGE - 1) & ~(uintptr_t)(HUGE - 1));

		madvise(first, size, MADV_HUGEPAGE);
		prctl(PR_SET_NAME, "fault");
		for (size_t at = 0; at < size / 2 && !over(load); at += HUGE)
			fault(load, first + at);
		prctl(PR_SET_NAME, "unmap");
		munmap(area, size + HUGE);
	}
}

const struct load_kind fioscale_load = {
	.name = "fioscale",
	.doc = "page cache of small files against faults of huge pages (mmtests thpfioscale)",
	.keeps = "4 writers of files of 64 KiB in writes of 4 KiB without fallocate, 150 % of the "
		 "budget; random readers, 16 reads a file; faults beside the readers: 75 % of the "
		 "budget mapped, half of it touched and written, huge or not by mincore",
	.leaves_out = "XFS, and more than 8 CPUs; the budget replaces all of the memory, unless "
		      "--leave pins the rest",
	.sampled = "fault (first touch and the write of 2 MiB) and touch (the first touch alone), "
		   "by order",
	.roles = {{io, "io", WRITERS}, {fault_all, "fault", PER_THREAD}},
	.disk = 150,
};

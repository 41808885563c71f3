// SPDX-License-Identifier: Apache-2.0
#include "roles.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "undo.h"

#define FILE_SIZE    65536ul
#define SOCKET_BYTES 212992ul /* the most that an unread socket holds by default */
enum { FILES_PER_DIRECTORY = 1024, PIPE_MIB = 800, DESCRIPTORS = 30000, SOCKETS = 500 };

void touch(char *area, size_t size, const struct load *load)
{
	for (size_t i = 0; i < size; i += PAGE) {
		area[i] = 1;
		if (!(i % MIB) && over(load))
			return;
	}
}

int file_io(const char *name, size_t size, bool write_it)
{
	static char page[PAGE];
	int fd = open(name, write_it ? O_CREAT | O_WRONLY | O_TRUNC : O_RDONLY, 0600);

	if (fd < 0)
		return -errno;
	for (size_t at = 0; at < size; at += PAGE) {
		ssize_t done = write_it ? write(fd, page, PAGE) : read(fd, page, PAGE);

		if (done != (ssize_t)PAGE)
			break;
	}
	close(fd);
	return 0;
}

static void storm(struct load *load)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(load->index, &set);
	sched_setaffinity(0, sizeof(set), &set);
	while (!over(load)) {
		char *area = map(MIB);

		touch(area, MIB, load);
		munmap(area, MIB);
	}
}

static void grow_memory(struct load *load)
{
	const size_t size = 700 * MIB;

	while (!over(load)) {
		char *area = map(size);

		touch(area, size, load);
		/* Shrinks from the end, in steps, as a heap does. */
		for (size_t left = size; left && !over(load); left -= 10 * MIB)
			madvise(area + left - 10 * MIB, 10 * MIB, MADV_DONTNEED);
		munmap(area, size);
	}
}

/* Two of these, with the rest of the load, need more memory than there is. */
static void grow_beyond(struct load *load)
{
	size_t size = load->memory * 2 / 5 & ~(MIB - 1);

	while (!over(load)) {
		char *area = map(size);

		touch(area, size, load);
		for (size_t hole = 0; hole < size && !over(load); hole += 4 * MIB)
			madvise(area + hole, MIB, MADV_DONTNEED);
		touch(area, size, load);
		munmap(area, size);
	}
}

static void grow_files(struct load *load)
{
	char name[32];

	while (!over(load))
		for (int i = 0; i < 16 && !over(load); i++) {
			snprintf(name, sizeof(name), "grow.%d.%d", load->nr, i);
			file_io(name, 16 * MIB, true);
			file_io(name, 16 * MIB, false);
			if (i % 2)
				unlink(name);
		}
}

/* Fill pipes with `size` bytes and close them, repeatedly. */
static void churn_pipes(struct load *load, size_t size)
{
	static char buf[MIB];
	size_t nr = size / MIB;
	int (*pipes)[2] = calloc(nr, sizeof(*pipes));

	if (!pipes)
		die("pipes");
	while (!over(load)) {
		size_t made = 0;

		for (; made < nr && !over(load); made++) {
			if (pipe2(pipes[made], O_NONBLOCK))
				break;
			fcntl(pipes[made][1], F_SETPIPE_SZ, (int)MIB);
			if (write(pipes[made][1], buf, sizeof(buf)) < 0 && errno != EAGAIN)
				die("pipe");
		}
		/* Every other pipe first, to leave fragmented free memory. */
		for (int odd = 0; odd < 2; odd++)
			for (size_t i = (size_t)odd; i < made; i += 2) {
				close(pipes[i][0]);
				close(pipes[i][1]);
			}
	}
	free(pipes);
}

static void pipes(struct load *load)
{
	size_t half = load->memory / 2;

	churn_pipes(load, half < PIPE_MIB * MIB ? half : PIPE_MIB * MIB);
}

static void small_pipes(struct load *load)
{
	churn_pipes(load, load->memory / 4 < 64 * MIB ? load->memory / 4 : 64 * MIB);
}

static void file_name(char *name, size_t size, int writer, unsigned int file)
{
	snprintf(name, size, "files.%d.%u/%u", writer, file / FILES_PER_DIRECTORY, file);
}

/* Small files, one and a half times as many as memory holds, from two writers. */
static void write_files(struct load *load)
{
	unsigned int nr = (unsigned int)(load->memory / 2 * 3 / 2 / FILE_SIZE);
	char name[48];

	for (unsigned int i = 0; i < nr; i++) {
		if (over(load)) {
			load->shared->cut = true;
			return;
		}
		if (i % FILES_PER_DIRECTORY == 0) {
			snprintf(name, sizeof(name), "files.%d.%u", load->nr,
				 i / FILES_PER_DIRECTORY);
			if (mkdir(name, 0700))
				die("%s", name);
		}
		file_name(name, sizeof(name), load->nr, i);
		if (file_io(name, FILE_SIZE, true))
			die("%s", name);
	}
}

/* Read the files written so far, at random. */
static void read_files(struct load *load)
{
	unsigned int nr = (unsigned int)(load->memory / 2 * 3 / 2 / FILE_SIZE);
	char name[48];

	while (!over(load)) {
		file_name(name, sizeof(name), rand_r(&load->seed) % 2,
			  (unsigned int)rand_r(&load->seed) % nr);
		if (file_io(name, FILE_SIZE, false))
			usleep(1000);
	}
}

/* Directory entries and inodes: reclaimable slab pages. */
static void churn_entries(struct load *load)
{
	char name[32];

	mkdir("entries", 0700);
	while (!over(load)) {
		for (int i = 0; i < 20000 && !over(load); i++) {
			snprintf(name, sizeof(name), "entries/%d", i);
			close(open(name, O_CREAT | O_WRONLY, 0600));
		}
		for (int i = 0; i < 20000; i++) {
			snprintf(name, sizeof(name), "entries/%d", i);
			unlink(name);
		}
	}
}

/* Open files: slab pages that cannot be reclaimed. */
static void churn_descriptors(struct load *load)
{
	static int fds[DESCRIPTORS];

	while (!over(load)) {
		int nr = 0;

		for (; nr < DESCRIPTORS && !over(load); nr++) {
			fds[nr] = open("/dev/null", O_RDONLY);
			if (fds[nr] < 0)
				break;
		}
		/* Every other one first, to leave slabs in part empty. */
		for (int odd = 0; odd < 2; odd++)
			for (int i = odd; i < nr; i += 2)
				close(fds[i]);
	}
}

/* Fill sockets with messages of several sizes, and close them. */
static void churn_sockets(struct load *load)
{
	static char buf[FILE_SIZE];
	static int sockets[SOCKETS][2];
	int most = (int)(load->memory / 5 * 2 / SOCKET_BYTES);

	while (!over(load)) {
		int nr = 0;

		for (; nr < SOCKETS && nr < most && !over(load); nr++) {
			size_t size = 512ul << rand_r(&load->seed) % 8;

			if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets[nr]))
				break;
			while (write(sockets[nr][0], buf, size) > 0)
				;
		}
		while (nr--) {
			close(sockets[nr][0]);
			close(sockets[nr][1]);
		}
	}
}

/* A file in memory of a third of what is available, with and without holes. */
static void churn_tmpfs(struct load *load)
{
	static char buf[FILE_SIZE];
	size_t size = load->memory / 3 & ~(MIB - 1);

	while (!over(load)) {
		int fd = memfd_create("load", 0);

		if (fd < 0)
			die("memfd_create");
		for (size_t at = 0; at < size && !over(load); at += sizeof(buf))
			if (write(fd, buf, sizeof(buf)) < 0)
				break;
		for (size_t at = 0; at < size && !over(load); at += 4 * sizeof(buf))
			fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at,
				  sizeof(buf));
		close(fd);
	}
}

static const char pool[] = "/proc/sys/vm/nr_hugepages";

static void keep_pool(struct load *load)
{
	char before[24];

	snprintf(before, sizeof(before), "%ld", read_number(pool));
	undo_add(SET_FILE, pool, before);
}

static void churn_hugetlb(struct load *load)
{
	unsigned long most = load->memory / 2 / (2 * MIB);

	while (!over(load)) {
		unsigned long nr = (unsigned long)rand_r(&load->seed) % (most + 1);
		size_t size = 2 * MIB * (nr / 2 + 1);
		char text[24], *area;

		snprintf(text, sizeof(text), "%lu", nr);
		write_text(pool, text); /* the kernel may refuse: it cannot grow so far */
		area = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
		if (area != MAP_FAILED) { /* the mapping reserves its pages: no SIGBUS */
			touch(area, size, load);
			munmap(area, size);
		}
		usleep(20000);
	}
}

static void compact(struct load *load)
{
	while (!over(load)) {
		write_text("/proc/sys/vm/compact_memory", "1");
		usleep(100000);
	}
}

/* Memory of which every other 64 KiB is free: nothing of order 5 until it is compacted. */
static void punch_holes(struct load *load)
{
	const size_t hole = 16 * PAGE;
	size_t size = load->memory / 2 & ~(MIB - 1);

	while (!over(load)) {
		char *area = map(size);

		madvise(area, size, MADV_NOHUGEPAGE);
		touch(area, size, load);
		for (size_t at = 0; at < size && !over(load); at += 2 * hole)
			madvise(area + at, hole, MADV_DONTNEED);
		usleep(200000);
		munmap(area, size);
	}
}

void churn_children(struct load *load, int nr, void (*body)(struct load *))
{
	pid_t children[16];

	while (!over(load)) {
		int started = 0;

		for (; started < nr; started++) {
			children[started] = fork_bound();
			if (children[started] < 0)
				break;
			if (!children[started]) {
				body(load);
				_exit(0);
			}
		}
		while (started--)
			waitpid(children[started], NULL, 0);
	}
}

static void touch_little(struct load *load)
{
	touch(map(MIB), MIB / 8, load);
}

/* Short-lived processes: stacks, page tables, all unmovable. */
static void churn_processes(struct load *load)
{
	churn_children(load, 16, touch_little);
}

static void touch_sparsely(struct load *load)
{
	const size_t size = 512 * MIB;
	char *area = map(size);

	madvise(area, size, MADV_NOHUGEPAGE);
	for (size_t at = 0; at < size && !over(load); at += 2 * MIB)
		area[at] = 1;
	usleep(300000);
}

/* Processes with a page in every 2 MiB: as many page tables, which cannot be moved. */
static void churn_tables(struct load *load)
{
	churn_children(load, 8, touch_sparsely);
}

static void churn_huge(struct load *load)
{
	size_t size = load->memory / 4 & ~(2 * MIB - 1);

	while (!over(load)) {
		char *area = map(size);

		madvise(area, size, MADV_HUGEPAGE);
		touch(area, size, load);
		munmap(area, size);
	}
}

/* Huge pages that are split: of each, a piece in its middle is unmapped. */
static void split_huge(struct load *load)
{
	size_t size = load->memory / 3 & ~(2 * MIB - 1);

	while (!over(load)) {
		char *area = map(size);

		madvise(area, size, MADV_HUGEPAGE);
		touch(area, size, load);
		for (size_t at = MIB; at < size && !over(load); at += 2 * MIB)
			madvise(area + at, 32 * PAGE, MADV_DONTNEED);
		touch(area, size / 2, load);
		munmap(area, size);
	}
}

/* The recorder has to keep up. */
static void be_nice(struct load *load)
{
	if (nice(5) < 0)
		die("nice");
}

const struct load_kind extfrag_load = {
	.name = "extfrag",
	.doc = "kernel memory that cannot be moved, against page cache",
	.keeps = "pipe buffers, sockets, open files and processes (UNMOVABLE), directory entries "
		 "and inodes (RECLAIMABLE), page cache of more small files than the budget",
	.leaves_out = "huge pages; a file system other than that of the directory",
	.sampled = "nothing",
	.roles = {{write_files, "writer", 2},
		  {read_files, "reader", 2},
		  {churn_entries, "entries", 1},
		  {churn_descriptors, "files", 1},
		  {churn_sockets, "sockets", 1},
		  {small_pipes, "pipes", 1},
		  {churn_processes, "processes", 1}},
	.prepare = be_nice,
	.disk = 150,
};

/* The guests and benches of analyze/lab use these. */
const struct load_kind lab_loads[] = {
	/* On every CPU a process that maps 1 MiB, touches it and unmaps it. */
	{.name = "storm", .roles = {{storm, NULL, PER_THREAD}}},
	/* Processes that grow to 700 MiB and shrink again, and file I/O. */
	{.name = "grow", .roles = {{grow_memory, NULL, 2}, {grow_files, NULL, 2}}},
	/* Pipe buffers: 800 MiB, or half of the budget. */
	{.name = "pipes", .roles = {{pipes}}},
	/* A fragmented mix with transparent huge pages. */
	{.name = "mixed",
	 .roles = {{write_files, NULL, 2},
		   {read_files, NULL, 2},
		   {churn_entries},
		   {churn_processes},
		   {churn_huge},
		   {small_pipes}},
	 .prepare = be_nice},
	/* More memory than there is: it swaps. */
	{.name = "pressure",
	 .roles = {{write_files, NULL, 2},
		   {read_files},
		   {churn_entries},
		   {churn_processes},
		   {grow_beyond, NULL, 2},
		   {small_pipes}}},
	/* The same with transparent huge pages. */
	{.name = "huge",
	 .roles = {{write_files, NULL, 2},
		   {read_files},
		   {churn_huge, NULL, 2},
		   {grow_beyond},
		   {churn_processes},
		   {small_pipes}}},
	/* A small server; the processes have the names of its services. */
	{.name = "server",
	 .roles = {{write_files, "mailspool"},
		   {read_files, "backup"},
		   {churn_entries, "updatedb"},
		   {churn_processes, "cron"},
		   {churn_huge, "database"},
		   {small_pipes, "logger"},
		   {churn_sockets, "frontend"}}},
	{.name = "files", .roles = {{write_files, NULL, 2}, {read_files}}},
	/* Directory entries and open files: slab pages, reclaimable and not. */
	{.name = "slab", .roles = {{churn_entries}, {churn_descriptors}}},
	/* Unread data, which cannot be moved. */
	{.name = "sockets", .roles = {{churn_sockets, NULL, 2}}},
	/* Short-lived processes, some with many page tables. */
	{.name = "forks", .roles = {{churn_processes}, {churn_tables}}},
	/* Files in memory, which can be swapped, with holes. */
	{.name = "tmpfs", .roles = {{churn_tmpfs, NULL, 2}}},
	/* A pool of huge pages that grows and shrinks, mapped in part, amid pipes. */
	{.name = "hugetlb", .roles = {{churn_hugetlb}, {small_pipes}}, .prepare = keep_pool},
	/* Transparent huge pages, unmapped in pieces. */
	{.name = "thp", .roles = {{split_huge}, {churn_huge}}},
	/* Compaction of all memory every 100 ms, amid memory with holes. */
	{.name = "compaction", .roles = {{compact}, {punch_holes}}},
	{.name = NULL},
};

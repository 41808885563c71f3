// SPDX-License-Identifier: Apache-2.0
/*
 * simoop.c - a database host: random reads and writes of large files beside memory that is reused.
 *
 * The files are made first; their making is the warm-up.
 */
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "load.h"
#include "roles.h"

#define FILE_MOST (80 * MIB)
enum { DIRECTORIES = 16, READ_MIB = 2, PARTS = 64 };

struct files {
	size_t size;
	unsigned int each; /* in a directory */
};

static struct files files_of(const struct load *load)
{
	size_t each = load->memory / 2 * 3 / DIRECTORIES;
	size_t size = (each < FILE_MOST ? each : FILE_MOST) / MIB * MIB;

	return (struct files){.size = size, .each = (unsigned int)(each / size)};
}

static void file_name(char *name, size_t size, unsigned int directory, unsigned int file)
{
	snprintf(name, size, "data.%u/%u", directory, file);
}

static void make_files(struct load *load, const struct files *files)
{
	char name[48], *buf = map(MIB);

	for (unsigned int d = (unsigned int)load->index; d < DIRECTORIES;
	     d += (unsigned int)load->threads) {
		snprintf(name, sizeof(name), "data.%u", d);
		if (mkdir(name, 0700))
			die("%s", name);
		for (unsigned int f = 0; f < files->each; f++) {
			int fd;

			file_name(name, sizeof(name), d, f);
			fd = open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
			if (fd < 0)
				die("%s", name);
			for (size_t at = 0; at < files->size; at += MIB) {
				if (over(load))
					load->shared->cut = true;
				else if (write(fd, buf, MIB) != (ssize_t)MIB)
					die("%s", name);
			}
			close(fd);
		}
	}
	munmap(buf, MIB);
}

/* One read or write at a random place of a random file. */
static void access_file(struct load *load, const struct files *files, char *buf, bool write_it)
{
	size_t size = write_it ? MIB : READ_MIB * MIB, at;
	struct sample about = {.node = -1, .order = -1};
	uint64_t begin;
	char name[48];
	int fd;

	if (size > files->size)
		size = files->size;
	at = (size_t)rand_r(&load->seed) % ((files->size - size) / PAGE + 1) * PAGE;
	file_name(name, sizeof(name), (unsigned int)rand_r(&load->seed) % DIRECTORIES,
		  (unsigned int)rand_r(&load->seed) % files->each);
	begin = now_ns();
	fd = open(name, (write_it ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
	if (fd < 0 ||
	    (write_it ? pwrite(fd, buf, size, (off_t)at) : pread(fd, buf, size, (off_t)at)) < 0)
		die("%s", name);
	close(fd);
	about.ns = now_ns() - begin;
	add_sample(load, write_it ? WRITE : READ, begin, about);
}

static void allocate(struct load *load, size_t size)
{
	struct sample about = {.node = -1, .order = -1};
	uint64_t begin = now_ns();
	char *area = map(size);

	touch(area, size, load);
	munmap(area, size);
	about.ns = now_ns() - begin;
	add_sample(load, ALLOCATION, begin, about);
}

static void serve(struct load *load)
{
	size_t set = load->memory / 10 * 6 / (size_t)load->threads / PAGE / PARTS * PAGE * PARTS;
	struct files files = files_of(load);
	char *memory = map(set), *buf = map(READ_MIB * MIB);

	make_files(load, &files);
	touch(memory, set, load);
	wait_until_made(load, load->threads);
	while (!over(load)) {
		size_t part = (size_t)rand_r(&load->seed) % PARTS;

		access_file(load, &files, buf, false);
		access_file(load, &files, buf, true);
		touch(memory + part * (set / PARTS), set / PARTS, load);
		allocate(load, set / PARTS);
	}
}

static void burn(struct load *load)
{
	volatile unsigned long sum = 0;

	for (int i = 0; i < (load->threads + 4) / 5 - 1; i++)
		if (!fork_bound())
			break;
	while (!over(load))
		for (unsigned long i = 0; i < 1000000; i++)
			sum += i * i;
}

static int look_at(const char *path, const struct stat *found, int type)
{
	return ended;
}

static void du(struct load *load)
{
	while (!over(load)) {
		ftw(".", look_at, 16);
		usleep(100000);
	}
}

const struct load_kind simoop_load = {
	.name = "simoop",
	.doc = "a database host: file I/O beside reused memory (simoop)",
	.keeps = "a process on each CPU, 60 % of the budget reused, 16 directories of files of 80 "
		 "MB, random reads of 2 MB and writes of 1 MB, a CPU burner for 5 of them, 2 "
		 "processes that look at all files as du does",
	.leaves_out = "20 minutes, the database; files are smaller if the budget is below 854 MB",
	.sampled = "read, write, and allocation (map, touch and unmap 1/64 of the memory)",
	.roles = {{serve, "serve", PER_THREAD}, {burn, "burn", 1}, {du, "du", 2}},
	.disk = 150,
};

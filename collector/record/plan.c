// SPDX-License-Identifier: Apache-2.0
#include "plan.h"

#include "spool/spool.h"

#include <errno.h>
#include <limits.h>
#include <link.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

enum {
	OTHER_FILES = 256, /* of the process: tables, tracefs, BPF, samples of /proc */
	OTHER_THREADS = 2, /* writer and decoder */
	LARGE_BLOCK = 64 << 10,
};

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

int plan_make(struct plan *out, const struct plan_input *in, struct error *err)
{
	uint64_t nr = (uint64_t)in->cpus, bytes, disk, over;
	size_t slots;

	bytes = least((uint64_t)PLAN_MEMORY_MB << 20, in->memory / PLAN_MEMORY_SHARE);
	bytes = least(bytes, in->disk / 4);
	if (in->spool_max)
		bytes = least(bytes, in->spool_max / 2);
	if (in->spool_memory)
		bytes = least(bytes, in->spool_memory);
	bytes = least(bytes / nr, (uint64_t)PLAN_CPU_MB << 20);
	slots = bytes / in->subbuf_bytes;
	if (slots > PLAN_MIN_SLOTS) { /* a spool has more than its slots */
		over = spool_memory(in->subbuf_bytes, slots) - bytes;
		slots -= (over + in->subbuf_bytes - 1) / in->subbuf_bytes;
	}
	if (slots < PLAN_MIN_SLOTS)
		slots = PLAN_MIN_SLOTS;
	*out = (struct plan){
		.slots = slots,
		.memory = spool_memory(in->subbuf_bytes, slots) * nr,
		.threads = in->cpus + OTHER_THREADS,
		.files = in->cpus * PLAN_CPU_FILES,
	};
	disk = out->memory + in->subbuf_bytes * nr;
	if (in->spool_max && disk > in->spool_max)
		return fail(err, EINVAL, "a spool of %llu KB is too small: %d CPUs need %llu KB",
			    (unsigned long long)in->spool_max >> 10, in->cpus,
			    (unsigned long long)disk >> 10);
	out->disk = in->spool_max ? in->spool_max - out->memory : 0;
	return 0;
}

/* The number in a file; UINT64_MAX if there is none ("max", or no file). */
static uint64_t read_limit(const char *path)
{
	unsigned long long limit;
	FILE *file = fopen(path, "re");
	int nr = 0;

	if (file) {
		nr = fscanf(file, "%llu", &limit);
		fclose(file);
	}
	return nr == 1 ? limit : UINT64_MAX;
}

/* The least limit of a control group and those above it; each is a directory below `root`. */
static uint64_t group_limit(const char *root, char *group, const char *name)
{
	uint64_t limit = UINT64_MAX;
	char path[2 * PATH_MAX];
	char *end;

	for (;;) {
		snprintf(path, sizeof(path), "%s%s/%s", root, group, name);
		limit = least(limit, read_limit(path));
		end = strrchr(group, '/');
		if (!end)
			return limit;
		*end = '\0';
	}
}

uint64_t plan_memory(void)
{
	struct sysinfo machine = {0};
	uint64_t memory;
	char line[PATH_MAX];
	FILE *file;

	sysinfo(&machine);
	memory = (uint64_t)machine.totalram * machine.mem_unit;
	file = fopen("/proc/self/cgroup", "re");
	while (file && fgets(line, sizeof(line), file)) {
		char *group = strrchr(line, ':');

		line[strcspn(line, "\n")] = '\0';
		if (!strncmp(line, "0::", 3))
			memory = least(memory,
				       group_limit("/sys/fs/cgroup", line + 3, "memory.max"));
		else if (group && strstr(line, ":memory:"))
			memory = least(memory, group_limit("/sys/fs/cgroup/memory", group + 1,
							   "memory.limit_in_bytes"));
	}
	if (file)
		fclose(file);
	return memory;
}

void plan_small_heap(void)
{
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK);
	mallopt(M_TRIM_THRESHOLD, LARGE_BLOCK);
}

/* Parts of a file that are never written have no private pages, which would be lost. */
static int unmap_code(struct dl_phdr_info *object, size_t size, void *arg)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	for (int i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &object->dlpi_phdr[i];
		uintptr_t start = object->dlpi_addr + part->p_vaddr, first = start & ~(page - 1);

		/* Of locked code, which the samples of /proc use, the kernel unmaps nothing. */
		if (part->p_type == PT_LOAD && !(part->p_flags & PF_W))
			madvise((void *)first, start + part->p_memsz - first, MADV_DONTNEED);
	}
	return 0;
}

void plan_give_back(void)
{
	malloc_trim(0);
	dl_iterate_phdr(unmap_code, NULL);
}

int plan_allow_files(int files, struct error *err)
{
	rlim_t wanted = (rlim_t)files + OTHER_FILES;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= wanted)
		return 0;
	limit.rlim_cur = wanted;
	if (limit.rlim_max < wanted)
		limit.rlim_max = wanted;
	if (!setrlimit(RLIMIT_NOFILE, &limit))
		return 0;
	getrlimit(RLIMIT_NOFILE, &limit);
	return fail(err, EMFILE,
		    "a recording of this machine opens %llu files, and the limit is %llu: "
		    "raise it with ulimit -n %llu",
		    (unsigned long long)wanted, (unsigned long long)limit.rlim_max,
		    (unsigned long long)wanted);
}

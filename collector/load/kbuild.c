// SPDX-License-Identifier: Apache-2.0
/*
 * kbuild.c - streams of compiles, each in a memory control group: a fixed work in a fixed time.
 *
 * A unit begins 0.5 to 1 s after the one before it, or when that is over. The compiler proper runs
 * without its driver, so that no process outlives its parent. Without a compiler a unit is a
 * process that faults as many pages as a compile and ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "load.h"
#include "roles.h"
#include "undo.h"

#define UNIT_BYTES (25000 * PAGE)
#define MEAN_S     0.75
enum { FUNCTIONS_LEAST = 10, FUNCTIONS_MORE = 20, DECLARATIONS = 16000, MOST_STREAMS = 64 };

static char compiler[PATH_MAX]; /* empty: none */
static char groups[MOST_STREAMS][PATH_MAX];

static int units_of(const struct load *load)
{
	int nr = (int)((load->end - load->begin) / MEAN_S);

	return nr < 2 ? 2 : nr;
}

static void find_compiler(void)
{
	FILE *answer = popen("${CC:-cc} -print-prog-name=cc1 2>/dev/null", "re");

	if (!answer)
		return;
	if (!fgets(compiler, sizeof(compiler), answer))
		compiler[0] = '\0';
	compiler[strcspn(compiler, "\n")] = '\0';
	pclose(answer);
	if (compiler[0] != '/' || access(compiler, X_OK))
		compiler[0] = '\0';
}

static FILE *create(const char *name)
{
	FILE *file = fopen(name, "we");

	if (!file)
		die("%s", name);
	return file;
}

static void finish(FILE *file, const char *name)
{
	if (fclose(file))
		die("%s", name);
}

/* As many declarations as the headers of a kernel's file have. */
static void write_header(const char *name, unsigned int seed)
{
	FILE *file = create(name);

	fputs("struct s { long a[16]; struct s *next; };\n", file);
	for (int i = 0; i < DECLARATIONS; i++)
		fprintf(file,
			"struct t%d { int a; long b[%d]; struct t%d *next; };\n"
			"extern long g%d(struct t%d *);\n",
			i, 1 + rand_r(&seed) % 99, rand_r(&seed) % (i + 1), i, i);
	finish(file, name);
}

/* 10 to 30 functions. */
static void write_source(const char *name, unsigned int seed)
{
	int nr = FUNCTIONS_LEAST + rand_r(&seed) % FUNCTIONS_MORE;
	FILE *file = create(name);

	fputs("#include \"../headers.h\"\n", file);
	for (int i = 0; i < nr; i++) {
		fprintf(file, "long f%d(struct s *s, long n)\n{\n\tlong sum = %d;\n", i,
			rand_r(&seed));
		for (int j = 0; j < 2; j++)
			fprintf(file,
				"\tfor (long i = 0; i < n; i += %d) {\n\t\ts->a[i & 15] ^= sum * "
				"%d;\n"
				"\t\tif (s->a[%d] > i)\n\t\t\tsum += s->next->a[%d] << %d;\n\t}\n",
				1 + rand_r(&seed) % 7, rand_r(&seed), rand_r(&seed) % 16,
				rand_r(&seed) % 16, rand_r(&seed) % 31);
		if (i)
			fprintf(file, "\tsum += f%d(s->next, n - 1);\n", rand_r(&seed) % i);
		fputs("\treturn sum;\n}\n", file);
	}
	finish(file, name);
}

/* The directory in which groups with a memory limit are made, or none. */
static bool place_of_groups(char *place, size_t size)
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	char line[PATH_MAX], *path;
	bool found = false;

	while (file && !found && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		path = strstr(line, ":memory:");
		if (!path)
			continue;
		snprintf(place, size, "/sys/fs/cgroup/memory%s", path + strlen(":memory:"));
		found = !access(place, W_OK);
	}
	if (file)
		fclose(file);
	if (found)
		return true;
	snprintf(place, size, "/sys/fs/cgroup");
	file = fopen("/sys/fs/cgroup/cgroup.subtree_control", "re");
	while (file && !found && fscanf(file, "%63s", line) == 1)
		found = !strcmp(line, "memory") && !access(place, W_OK);
	if (file)
		fclose(file);
	return found;
}

static void prepare(struct load *load)
{
	char place[PATH_MAX - 64], name[64];

	find_compiler();
	if (compiler[0])
		write_header("headers.h", load->first_seed);
	for (int s = 0; compiler[0] && s < load->threads; s++) {
		snprintf(name, sizeof(name), "stream.%d", s);
		if (mkdir(name, 0700))
			die("%s", name);
		for (int u = 0; u < units_of(load); u++) {
			snprintf(name, sizeof(name), "stream.%d/%d.c", s, u);
			write_source(name,
				     load->first_seed + 1000u * (unsigned int)s + (unsigned int)u);
		}
	}
	if (place_of_groups(place, sizeof(place)))
		for (int s = 0; s < load->threads && s < MOST_STREAMS; s++) {
			snprintf(groups[s], sizeof(groups[s]), "%s/pagetape-load.%d.%d", place,
				 getpid(), s);
			undo_add(MADE_GROUP, groups[s], NULL);
			if (mkdir(groups[s], 0755))
				groups[s][0] = '\0';
		}
	snprintf(load->note, sizeof(load->note), "%s, %s",
		 compiler[0] ? "units of the C compiler" : "no C compiler: built-in units",
		 groups[0][0]
			 ? "a control group for each stream"
			 : "no control groups: no right to make them, or no memory controller");
}

static void compile(struct load *load, int unit)
{
	char source[64], output[64];
	int null = open("/dev/null", O_WRONLY);

	snprintf(source, sizeof(source), "stream.%d/%d.c", load->index, unit);
	snprintf(output, sizeof(output), "stream.%d/%d.s", load->index, unit);
	dup2(null, STDERR_FILENO);
	execl(compiler, compiler, "-quiet", "-O2", source, "-o", output, (char *)NULL);
	_exit(127);
}

static void fault_unit(struct load *load)
{
	size_t share = load->memory / (size_t)load->threads,
	       size = share < UNIT_BYTES ? share : UNIT_BYTES;
	char *area = map(size);

	madvise(area, size, MADV_NOHUGEPAGE);
	touch(area, size, load);
}

static void stream(struct load *load)
{
	struct sample about = {.node = -1, .order = -1};
	double due = now();
	char file[PATH_MAX + 16];

	if (load->index < MOST_STREAMS && groups[load->index][0]) {
		snprintf(file, sizeof(file), "%s/cgroup.procs", groups[load->index]);
		if (write_text(file, "0"))
			die("%s", file);
	}
	for (int unit = 0; unit < units_of(load); unit++) {
		uint64_t begin;
		pid_t child;
		int status;

		while (now() < due && !over(load))
			usleep(1000);
		if (over(load)) {
			load->shared->cut = true;
			return;
		}
		due = now() + 0.5 + rand_r(&load->seed) % 500 / 1e3;
		begin = now_ns();
		child = fork_bound();
		if (child < 0)
			die("fork");
		if (!child) {
			if (compiler[0])
				compile(load, unit);
			fault_unit(load);
			_exit(0);
		}
		if (waitpid(child, &status, 0) < 0 || (!ended && status)) {
			errno = 0;
			die("unit %d of stream %d: status %d", unit, load->index, status);
		}
		about.ns = now_ns() - begin;
		add_sample(load, UNIT, begin, about);
	}
}

const struct load_kind kbuild_load = {
	.name = "kbuild",
	.doc = "streams of compiles, the same work in each run (kernel builds of the PCP "
	       "auto-tuning series)",
	.keeps = "a stream for each CPU, each in a memory control group, and bursts of page faults "
		 "with pauses; units start 0.5 to 1 s apart",
	.leaves_out = "the kernel's sources: generated ones of a seed, at -O2; without a C "
		      "compiler a unit faults 25,000 pages and ends",
	.sampled = "unit",
	.roles = {{stream, "stream", PER_THREAD}},
	.prepare = prepare,
	.disk = 50,
};

// SPDX-License-Identifier: Apache-2.0
/*
 * spool_bench DIR CPUS EVENTS_PER_S SECONDS: spools under a synthetic load, without a kernel.
 *
 * One thread fills the spools of all CPUs at that rate, with the memory that a recording would
 * have, and a writer moves them to DIR; nothing is decoded. Then one decoder reads all of it.
 * Prints one JSON object. "late" counts sub-buffers that found no room; they are put in when there
 * is room.
 */
#include "record/plan.h"
#include "record/recover.h"
#include "ring/subbuf.h"
#include "spool/writer.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { SUBBUF = 64 * 1024, FREE = 11, DISK_MB = 512 };

static const char formats[] =
	"name: mm_page_free\nID: 11\nformat:\n"
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
	"\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
	"\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
	"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
	"\tfield:unsigned long pfn;\toffset:8;\tsize:8;\tsigned:0;\n"
	"\tfield:unsigned int order;\toffset:16;\tsize:4;\tsigned:0;\n"
	"\nprint fmt: \"%lu\", REC->pfn\n";

/* 32 bytes, as an event of the page set takes on average. */
struct entry {
	uint32_t head; /* length in words, time since the one before << 5 */
	uint16_t type;
	uint8_t flags, preempt_count;
	int32_t pid;
	uint64_t pfn;
	uint32_t order, unused[2];
} __attribute__((packed));

enum { PER_SUBBUF = (SUBBUF - sizeof(struct subbuf)) / sizeof(struct entry) };

static const char *dir;
static char template[SUBBUF];

static void die(const char *what)
{
	fprintf(stderr, "spool_bench: %s\n", what);
	exit(1);
}

static uint64_t now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (uint64_t)at.tv_sec * 1000000000 + (uint64_t)at.tv_nsec;
}

static double cpu_s(void)
{
	struct rusage use;

	getrusage(RUSAGE_SELF, &use);
	return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
	       (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
}

static void nap_until(uint64_t due)
{
	uint64_t ts = now();
	struct timespec length = {0};

	if (ts >= due)
		return;
	length.tv_nsec = (long)((due - ts) % 1000000000);
	nanosleep(&length, NULL);
}

/* Sequential rate of the disk, MB/s. */
static double disk_rate(void)
{
	char path[512];
	void *block;
	uint64_t begin = now();
	int fd;

	snprintf(path, sizeof(path), "%s/rate", dir);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_DIRECT, 0600);
	if (fd < 0)
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || posix_memalign(&block, 4096, 1 << 20))
		die("cannot write to the directory");
	memset(block, 1, 1 << 20);
	for (int mb = 0; mb < DISK_MB; mb++)
		if (write(fd, block, 1 << 20) != 1 << 20)
			die("cannot write to the directory");
	fsync(fd);
	close(fd);
	unlink(path);
	free(block);
	return DISK_MB * 1.048576e9 / (double)(now() - begin);
}

static void make_template(uint64_t step_ns)
{
	struct subbuf *subbuf = (struct subbuf *)template;
	struct entry *entry = (struct entry *)subbuf->data;

	for (int i = 0; i < PER_SUBBUF; i++)
		entry[i] = (struct entry){
			.head = (uint32_t)(sizeof(*entry) - 4) / 4 | (uint32_t)step_ns << 5,
			.type = FREE,
			.pid = 7,
			.pfn = 4096 + (uint64_t)i,
		};
	subbuf->commit = PER_SUBBUF * sizeof(*entry);
}

struct load {
	struct spool **spools;
	int cpus;
	struct writer *writer;
	uint64_t late, longest_wait, subbufs, peak;
};

static void fill_one(struct load *load, int cpu, uint64_t ts)
{
	struct spool *spool = load->spools[cpu];
	struct subbuf *slot = spool_slot(spool);
	uint64_t begin = slot ? 0 : now(), waited;

	load->late += !slot;
	while (!slot) {
		nap_until(now() + 200000);
		slot = spool_slot(spool);
	}
	waited = begin ? now() - begin : 0;
	if (waited > load->longest_wait)
		load->longest_wait = waited;
	memcpy(slot, template, SUBBUF);
	slot->ts = ts;
	spool_push(spool);
	if (spool_should_store(spool))
		writer_wake(load->writer);
	load->subbufs++;
}

static void fill(struct load *load, double subbufs_per_s, double seconds)
{
	uint64_t begin = now(), end = begin + (uint64_t)(seconds * 1e9), due = begin;

	while (due < end) {
		struct spool_use use = {0};

		for (int cpu = 0; cpu < load->cpus; cpu++) {
			nap_until(due);
			fill_one(load, cpu, due);
			due = begin + (uint64_t)((double)load->subbufs / subbufs_per_s * 1e9);
		}
		for (int cpu = 0; cpu < load->cpus; cpu++)
			spool_add_use(load->spools[cpu], &use);
		if (use.memory > load->peak)
			load->peak = use.memory;
	}
}

static void write_text(const char *name, const char *text)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "w");
	if (!file || fputs(text, file) < 0 || fclose(file))
		die("cannot write to the directory");
}

/* Decode everything; returns rows per second of CPU time, as the machine may be busy. */
static double decode(uint64_t *rows)
{
	static const struct decoder_names no_names;
	char text[2048];
	struct recovery *r;
	struct error err = {""};
	struct item item;
	double begin;
	int ret;

	snprintf(text, sizeof(text), "pagetape formats 1\nvmstat_update 0\nevent kmem %zu\n%s",
		 sizeof(formats) - 1, formats);
	write_text("formats", text);
	write_text("tasks", "hierarchy 0\n");
	begin = cpu_s();
	if (recovery_open(&r, dir, &no_names, NULL, &err))
		die(err.msg);
	while ((ret = source_read(&recovery_unspool(r)->source, 10000, &item, &err)) == 1) {
		if (!item.table)
			continue;
		*rows += (uint64_t)item.array.length;
		item.array.release(&item.array);
	}
	if (ret)
		die(err.msg);
	recovery_close(r);
	return (double)*rows / (cpu_s() - begin);
}

int main(int argc, char **argv)
{
	struct spool_budget unbounded = {0};
	struct plan_input machine = {0, SUBBUF, plan_memory(), UINT64_MAX, 0, 0};
	struct writer_config config = {0};
	struct error err = {""};
	struct load load = {0};
	double rate, seconds, cpu, wall, disk, decoded_per_s;
	uint64_t rows = 0, begin;
	struct plan plan;

	if (argc != 5)
		die("usage: spool_bench DIR CPUS EVENTS_PER_S SECONDS");
	dir = argv[1];
	load.cpus = machine.cpus = atoi(argv[2]);
	rate = atof(argv[3]);
	seconds = atof(argv[4]);
	if (load.cpus < 1 || load.cpus > 4096 || plan_make(&plan, &machine, &err) ||
	    plan_allow_files(plan.files, &err))
		die(err.msg[0] ? err.msg : "CPUS is 1 to 4096");
	disk = disk_rate();
	make_template((uint64_t)(load.cpus / rate * 1e9));
	load.spools = calloc((size_t)load.cpus, sizeof(*load.spools));
	for (int i = 0; i < load.cpus; i++) {
		const struct spool_config one = {
			.dir = dir,
			.cpu = i,
			.slot_bytes = SUBBUF,
			.slots = plan.slots,
			.budget = &unbounded,
			.keep = true,
		};

		if (spool_new(&load.spools[i], &one, &err))
			die(err.msg);
	}
	config.spools = load.spools;
	config.nr = load.cpus;
	if (writer_new(&load.writer, &config, &err))
		die(err.msg);
	cpu = cpu_s();
	begin = now();
	fill(&load, rate / PER_SUBBUF, seconds);
	wall = (double)(now() - begin) / 1e9;
	cpu = cpu_s() - cpu;
	writer_free(load.writer);
	for (int i = 0; i < load.cpus; i++)
		spool_free(load.spools[i]);
	decoded_per_s = decode(&rows);
	if (rows != load.subbufs * PER_SUBBUF)
		die("the decoder found another number of events");
	printf("{\"cpus\": %d, \"events\": %llu, \"events_per_s\": %.0f, \"mb_per_s\": %.1f, "
	       "\"disk_mb_per_s\": %.1f, \"late\": %llu, \"longest_wait_ms\": %.1f, "
	       "\"memory_mb\": %.1f, \"memory_peak_mb\": %.1f, \"fill_cpus\": %.3f, "
	       "\"decoded_per_s\": %.0f}\n",
	       load.cpus, (unsigned long long)rows, (double)rows / wall,
	       (double)load.subbufs * SUBBUF / wall / 1e6, disk, (unsigned long long)load.late,
	       (double)load.longest_wait / 1e6, (double)plan.memory / 1e6, (double)load.peak / 1e6,
	       cpu / wall, decoded_per_s);
	return 0;
}

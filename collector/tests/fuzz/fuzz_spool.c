// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_spool.c - a spool of two CPUs and its checkpoint.
 *
 * The input is a list of writes over a good spool: where (a file and an offset), and bytes. So most
 * of it stays good, and damage reaches far. Times must ascend, whatever is read.
 */
#include "fuzz_file.h"
#include "fuzz_source.h"
#include "fuzz_formats.h"
#include "input/probe.h"
#include "record/recover.h"
#include "ring/subbuf.h"
#include "spool/spool_internal.h"
#include "tables.h"

#include <assert.h>

enum { CPUS = 2, SLOT = 4096, SLOTS = 4, SUBBUFS = 7, WORDS = 128, MAX_TASKS = 2048 };

static const struct decoder_names names;

/* The formats are good: no child needs to try them. It takes the place of input/probe.c. */
int probe(const struct probe *p, struct error *err)
{
	(void)p, (void)err;
	return 0;
}

struct entry {
	uint32_t head; /* words, time since the one before << 5 */
	uint16_t type;
	uint8_t flags, preempt_count;
	int32_t pid;
	uint64_t words[4];
} __attribute__((packed));

static void fill(struct subbuf *to, uint64_t number)
{
	static const uint16_t types[] = {10, 11, 12, 13, 14, 4, 15, 17};

	*to = (struct subbuf){.ts = 1000 * (number + 1)};
	for (int i = 0; i < 8; i++) {
		struct entry entry = {.type = types[i], .pid = 7, .words = {number, 0, 1, 2}};

		entry.head = (sizeof(entry) - 4) / 4 | (uint32_t)(10 * i) << 5;
		memcpy(to->data + to->commit, &entry, sizeof(entry));
		to->commit += sizeof(entry);
	}
}

static void write_formats(void)
{
	FILE *file = fopen(fuzz_path("formats"), "we");

	fprintf(file, "pagetape formats 1\nvmstat_update ff00\n");
	for (size_t i = 0; i < sizeof(fuzz_formats) / sizeof(fuzz_formats[0]); i++)
		fprintf(file, "event %s %zu\n%s", fuzz_formats[i].system,
			strlen(fuzz_formats[i].text), fuzz_formats[i].text);
	fclose(file);
}

/* A good spool of each CPU, partly in memory and partly in the file. */
static void write_spool(void)
{
	static struct spool_budget unbounded;
	static const char *const files[] = {"cpu0", "cpu1", "cpu0.more", "cpu1.more"};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		unlink(fuzz_path(files[i]));
	for (int cpu = 0; cpu < CPUS; cpu++) {
		const struct spool_config config = {fuzz_dir,   cpu,  SLOT, SLOTS,
						    &unbounded, true, NULL};
		struct spool *spool;

		if (spool_new(&spool, &config, NULL))
			exit(1);
		for (uint64_t n = 0; n < SUBBUFS; n++) {
			struct subbuf *slot = spool_slot(spool);

			fill(slot, 2 * n + (uint64_t)cpu);
			spool_push(spool);
			spool_store(spool, NULL);
		}
		spool_free(spool);
	}
	fuzz_write("tasks", "hierarchy 0\n7 7 0 4:bash 2:/a\n", 31);
}

/* Apply the writes; the checkpoint is the words after them. */
static struct checkpoint *damage(struct input *in)
{
	static const char *const files[] = {"cpu0", "cpu1", "cpu0.more", "cpu1.more", "tasks"};
	struct checkpoint *checkpoint = NULL;

	while (in->left) {
		uint8_t what = (uint8_t)take(in, 1);
		size_t at = take(in, 2), bytes = take(in, 1) % 65;
		int fd;

		if (what % 8 == 7 && !checkpoint) {
			checkpoint = calloc(1, sizeof(*checkpoint) + WORDS * sizeof(uint64_t));
			checkpoint->nr = at % WORDS;
			for (size_t i = 0; i < checkpoint->nr; i++) /* small numbers or any */
				checkpoint->words[i] = take(in, take(in, 1) % 4 ? 1 : 8);
			continue;
		}
		bytes = bytes < in->left ? bytes : in->left;
		fd = open(fuzz_path(files[what % 5]), O_WRONLY | O_CLOEXEC);
		if (what >= 250)
			(void)!ftruncate(fd, (off_t)at);
		else
			(void)!pwrite(fd, in->data, bytes, (off_t)at);
		close(fd);
		take(in, bytes < 8 ? bytes : 8);
		in->data += bytes > 8 ? bytes - 8 : 0;
		in->left -= bytes > 8 ? bytes - 8 : 0;
	}
	return checkpoint;
}

static void read_all(struct recovery *r)
{
	fuzz_read(&recovery_unspool(r)->source);
	for (int32_t pid = 0; pid < 64; pid++)
		tasks_find(recovery_unspool(r)->tasks, pid);
	assert(unspool_progress(recovery_unspool(r)) >= 0 && recovery_ended(r)[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	struct checkpoint *checkpoint;
	struct spool_state state;
	struct recovery *r;
	struct error err;

	if (!fuzz_dir[0]) {
		fuzz_make_dir("fuzz_spool");
		write_formats();
	}
	write_spool();
	checkpoint = damage(&in);
	recovery_look(fuzz_dir, &state, &err);
	if (!recovery_open(&r, fuzz_dir, &names, checkpoint, &err)) {
		read_all(r);
		recovery_close(r);
	}
	free(checkpoint);
	return 0;
}

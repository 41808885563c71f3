// SPDX-License-Identifier: Apache-2.0
#include "check.h"
#include "decode/formats.h"
#include "record/recover.h"
#include "record/unspool.h"
#include "ring/subbuf.h"
#include "tables.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * A recording of RECORDS events, one every 10 ms, each freeing the pfn that is its number:
 * now on this CPU, now on that, in sub-buffers of a few.
 */
enum {
	CPUS = 2,
	RECORDS = 1000,
	PER_SUBBUF = 7,
	STEP_NS = 10000000,
	SLOT = 4096,
	SLOTS = 8,
	FREE = 11,
};

static const char formats[] =
	"name: mm_page_free\nID: 11\nformat:\n"
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
	"\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
	"\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
	"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
	"\tfield:unsigned long pfn;\toffset:8;\tsize:8;\tsigned:0;\n"
	"\tfield:unsigned int order;\toffset:16;\tsize:4;\tsigned:0;\n"
	"\nprint fmt: \"%lu\", REC->pfn\n";

struct free_record {
	uint16_t type;
	uint8_t flags, preempt_count;
	int32_t pid;
	uint64_t pfn;
	uint32_t order;
} __attribute__((packed));

struct entry {
	uint32_t head; /* length in words, time since the one before << 5 */
	struct free_record record;
} __attribute__((packed));

static char dir[] = "/tmp/test_unspool.XXXXXX";
static const struct decoder_names no_names;

static const char *path_of(const char *name)
{
	static char path[64];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void write_text(const char *name, const char *text)
{
	FILE *file = fopen(path_of(name), "w");

	fputs(text, file);
	fclose(file);
}

static int cpu_of(int record)
{
	return record / 3 % 2 ^ (record % 5 == 0);
}

struct filling {
	struct spool *spool;
	struct subbuf *subbuf;
	int nr;
	uint64_t ts;
};

static void hand_over(struct filling *f)
{
	if (f->subbuf)
		spool_push(f->spool);
	while (spool_should_store(f->spool))
		check(spool_store(f->spool, NULL) == 1);
	f->subbuf = NULL;
}

static void add(struct filling *f, int record)
{
	uint64_t ts = (uint64_t)(record + 1) * STEP_NS;
	struct entry entry = {.record = {.type = FREE, .pid = 7, .pfn = (uint64_t)record}};

	if (!f->subbuf) {
		f->subbuf = spool_slot(f->spool);
		*f->subbuf = (struct subbuf){.ts = ts};
		f->ts = ts;
		f->nr = 0;
	}
	entry.head = sizeof(entry.record) / 4 | (uint32_t)(ts - f->ts) << 5;
	memcpy(f->subbuf->data + f->subbuf->commit, &entry, sizeof(entry));
	f->subbuf->commit += sizeof(entry);
	f->ts = ts;
	if (++f->nr == PER_SUBBUF)
		hand_over(f);
}

static void make_recording(void)
{
	static struct spool_budget unbounded;
	struct filling filling[CPUS] = {0};

	for (int cpu = 0; cpu < CPUS; cpu++) {
		const struct spool_config config = {dir, cpu, SLOT, SLOTS, &unbounded, true, NULL};

		check(!spool_new(&filling[cpu].spool, &config, NULL));
	}
	for (int i = 0; i < RECORDS; i++)
		add(&filling[cpu_of(i)], i);
	for (int cpu = 0; cpu < CPUS; cpu++) {
		hand_over(&filling[cpu]);
		spool_free(filling[cpu].spool);
	}
}

static void make_files(void)
{
	char text[2048];

	snprintf(text, sizeof(text), "pagetape formats 1\nvmstat_update 0\nevent kmem %zu\n%s",
		 sizeof(formats) - 1, formats);
	write_text("formats", text);
	write_text("tasks", "hierarchy 0\n");
	make_recording();
}

static void remove_files(void)
{
	static const char *const names[] = {"formats", "tasks",     "cpu0",
					    "cpu1",    "cpu0.more", "cpu1.more"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unlink(path_of(names[i]));
}

/* Read up to the end, or to a checkpoint, which is returned; *pfn is the next that must come. */
static struct checkpoint *read_some(struct source *s, uint64_t *pfn)
{
	struct error err = {""};
	struct item item;
	int ret;

	while ((ret = source_read(s, 10000, &item, &err)) == 1) {
		struct event_columns columns;
		size_t nr;

		if (!item.table)
			return item.checkpoint;
		check(!table_borrow(item.table, &item.array, &columns, &nr, NULL));
		for (size_t i = 0; i < nr && columns.pfn[i] == *pfn; i++)
			(*pfn)++;
		item.array.release(&item.array);
	}
	if (ret)
		printf("# %s\n", err.msg);
	check(ret == 0);
	return NULL;
}

/* CPU 0 lost 100 events; a full page has no room for the size of a gap. */
static int counted_100(struct unspool *u, int cpu, struct ring_stats *out, struct error *err)
{
	(void)u, (void)err;
	*out = (struct ring_stats){.overrun = cpu ? 0 : 100};
	return 0;
}

static int nobody_counted(struct unspool *u, int cpu, struct ring_stats *out, struct error *err)
{
	(void)u, (void)cpu, (void)out;
	return fail(err, ENODATA, "no count");
}

/* A recording without its readers. */
static void set_up(struct unspool *u)
{
	unspool_init(u);
	u->ring_stats = nobody_counted;
	u->checkpoints = true;
	for (int cpu = 0; cpu < CPUS; cpu++) {
		check(!unspool_add(u, cpu, "", NULL));
		check(!spool_open(&u->cursors[cpu].spool, dir, cpu, NULL));
	}
	check(!unspool_ready(u, NULL));
	u->source.tep = tep_alloc();
	tep_set_loglevel(TEP_LOG_NONE);
	tep_set_long_size(u->source.tep, 8);
	check(!tep_parse_event(u->source.tep, formats, sizeof(formats) - 1, "kmem"));
	check(!decoder_new(&u->source.decoder, u->source.tep, &no_names, 64, NULL));
	check(!tasks_new(&u->tasks, u->source.tep, NULL));
}

static void check_counts(struct source *s)
{
	const struct decoder_count *counts;
	size_t nr;

	counts = decoder_counts(s->decoder, &nr);
	check(nr == 1 && counts[0].events == RECORDS);
	check(s->nr_gaps == 0);
	check(s->rings[0].read + s->rings[1].read == RECORDS);
	check(s->rings[0].bytes + s->rings[1].bytes >= RECORDS * sizeof(struct entry));
	check(s->rings[cpu_of(0)].first_ts == STEP_NS);
	check(s->rings[cpu_of(RECORDS - 1)].last_ts == (uint64_t)RECORDS * STEP_NS);
}

static void goes_on_from(const struct checkpoint *checkpoint, uint64_t pfn)
{
	struct recovery *r;
	struct error err = {""};

	check(!recovery_open(&r, dir, &no_names, checkpoint, &err));
	if (!r) {
		printf("# %s\n", err.msg);
		return;
	}
	check(!read_some(&recovery_unspool(r)->source, &pfn));
	check(pfn == RECORDS);
	check_counts(&recovery_unspool(r)->source);
	check(!strcmp(recovery_ended(r), "killed"));
	check(source_bad_records(&recovery_unspool(r)->source) == 0);
	recovery_close(r);
}

TEST(a_spool_is_read_from_the_start)
{
	make_files();
	goes_on_from(NULL, 0);
	remove_files();
}

TEST(every_checkpoint_divides_the_rows_without_loss)
{
	struct checkpoint *checkpoint;
	struct unspool u;
	pthread_t thread;
	uint64_t pfn = 0;
	int nr = 0;

	make_files();
	set_up(&u);
	check(!pthread_create(&thread, NULL, unspool_run, &u));
	while ((checkpoint = read_some(&u.source, &pfn))) {
		nr++;
		goes_on_from(checkpoint, pfn);
		free(checkpoint);
	}
	pthread_join(thread, NULL);
	check(nr > 10);
	check(pfn == RECORDS);
	check_counts(&u.source);
	unspool_destroy(&u);
	remove_files();
}

TEST(a_damaged_sub_buffer_is_a_gap)
{
	const uint32_t nonsense = 0xfffff8 << 5;
	struct recovery *r;
	struct error err = {""};
	struct item item;
	size_t rows = 0;
	int fd;

	make_files();
	fd = open(path_of("cpu0.more"), O_RDWR);
	/* In the second sub-buffer: the head of its first entry. */
	check(pwrite(fd, &nonsense, 4, SLOT + sizeof(struct subbuf)) == 4);
	close(fd);
	check(!recovery_open(&r, dir, &no_names, NULL, &err));
	while (source_read(&recovery_unspool(r)->source, 10000, &item, &err) == 1) {
		rows += (size_t)item.array.length;
		item.array.release(&item.array);
	}
	check(rows == RECORDS - PER_SUBBUF);
	check(source_bad_records(&recovery_unspool(r)->source) == 1);
	check(recovery_unspool(r)->source.nr_gaps == 1);
	check(recovery_unspool(r)->source.gaps[0].events == UNKNOWN_COUNT);
	recovery_close(r);
	remove_files();
}

/* Mark CPU 0's sub-buffers in its overflow that have these numbers: events were lost before. */
static void make_gaps(const int *numbers, size_t nr)
{
	const unsigned long marked =
		SUBBUF_MISSED | (unsigned long)(PER_SUBBUF * sizeof(struct entry));
	int fd;

	make_files();
	fd = open(path_of("cpu0.more"), O_RDWR);
	for (size_t i = 0; i < nr; i++)
		check(pwrite(fd, &marked, sizeof(marked),
			     numbers[i] * SLOT + (off_t)offsetof(struct subbuf, commit)) ==
		      sizeof(marked));
	close(fd);
}

static uint64_t sum_of_gaps(const struct source *s, int *nr_unknown)
{
	uint64_t sum = 0;

	*nr_unknown = 0;
	for (size_t i = 0; i < s->nr_gaps; i++) {
		if (s->gaps[i].events == UNKNOWN_COUNT)
			(*nr_unknown)++;
		else
			sum += s->gaps[i].events;
	}
	return sum;
}

TEST(the_rings_counters_give_the_sum_of_gaps_without_a_size)
{
	static const int numbers[] = {2, 5, 9};

	for (size_t nr = 1; nr <= 3; nr++) {
		struct checkpoint *checkpoint;
		struct unspool u;
		pthread_t thread;
		uint64_t pfn = 0;
		int nr_unknown;

		make_gaps(numbers, nr);
		set_up(&u);
		u.ring_stats = counted_100;
		check(!pthread_create(&thread, NULL, unspool_run, &u));
		while ((checkpoint = read_some(&u.source, &pfn)))
			free(checkpoint);
		pthread_join(thread, NULL);
		check(pfn == RECORDS);
		check(sum_of_gaps(&u.source, &nr_unknown) == 100);
		check(nr_unknown == (nr == 1 ? 0 : (int)nr));
		check(u.source.rings[0].overrun == 100);
		unspool_destroy(&u);
		remove_files();
	}
}

/* The priority of the calling thread, as the owner sets it. */
TEST(the_decoder_hurries_when_memory_is_half_full)
{
	struct spool_use use = {.memory_size = 80};
	struct unspool u;
	int before = sched_getscheduler(0);
	const struct {
		uint64_t memory, file;
		int policy;
	} steps[] = {
		{10, 0, SCHED_IDLE},    {40, 0, SCHED_IDLE},   {41, 0, SCHED_OTHER},
		{31, 0, SCHED_OTHER},   {29, 0, SCHED_IDLE},   {29, 1000, SCHED_IDLE},
		{0, 1001, SCHED_OTHER}, {0, 501, SCHED_OTHER}, {0, 499, SCHED_IDLE},
	};

	unspool_init(&u);
	u.hurry_bytes = 1000;
	check(!sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0}));
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		use.memory = steps[i].memory;
		use.file = steps[i].file;
		unspool_keep_pace(&u, pthread_self(), &use);
		check(sched_getscheduler(0) == steps[i].policy);
	}
	unspool_urge(&u, pthread_self());
	use = (struct spool_use){.memory_size = 80};
	unspool_keep_pace(&u, pthread_self(), &use);
	check(sched_getscheduler(0) == SCHED_OTHER);
	check(!sched_setscheduler(0, before, &(struct sched_param){0}));
	unspool_destroy(&u);
}

/* Instead of the C library's: the scheduling policy of the thread that reads a spool's file. */
static atomic_int reads, idle_reads;

ssize_t pread(int fd, void *to, size_t bytes, off_t at)
{
	reads++;
	idle_reads += sched_getscheduler(0) == SCHED_IDLE;
	return syscall(SYS_pread64, fd, to, bytes, at);
}

/* A thread of SCHED_IDLE that holds the file's lock keeps the writer waiting for seconds. */
TEST(the_decoder_reads_the_disk_at_normal_priority)
{
	struct checkpoint *checkpoint;
	struct unspool u;
	pthread_t thread;
	uint64_t pfn = 0;

	make_files();
	set_up(&u);
	reads = idle_reads = 0;
	check(!pthread_create(&thread, NULL, unspool_run, &u));
	while ((checkpoint = read_some(&u.source, &pfn)))
		free(checkpoint);
	check(pfn == RECORDS);
	check(reads > 10 && idle_reads == 0);
	pthread_join(thread, NULL);
	unspool_destroy(&u);
	remove_files();
}

static void refused(const struct checkpoint *checkpoint, int code, const char *words)
{
	struct error err = {""};
	struct recovery *r;

	check(recovery_open(&r, dir, &no_names, checkpoint, &err) == code);
	check(r == NULL);
	check(strstr(err.msg, words));
	if (!strstr(err.msg, words))
		printf("# %s\n", err.msg);
}

/* Write over cpu0's overflow: `at` bytes into its second sub-buffer, which then has one entry. */
static void make_second_subbuf(const void *bytes, size_t nr, off_t at)
{
	int fd;

	make_files();
	fd = open(path_of("cpu0.more"), O_RDWR);
	check(pwrite(fd, bytes, nr, SLOT + at) == (ssize_t)nr);
	close(fd);
}

/* Rows of the recording; their times must ascend, and stay below `last`. */
static size_t rows_in_order(uint64_t bad, uint64_t last)
{
	struct recovery *r;
	struct error err = {""};
	struct item item;
	size_t rows = 0;
	uint64_t ts = 0;

	check(!recovery_open(&r, dir, &no_names, NULL, &err));
	while (source_read(&recovery_unspool(r)->source, 10000, &item, &err) == 1) {
		struct event_columns columns;
		size_t nr;

		check(!table_borrow(item.table, &item.array, &columns, &nr, NULL));
		for (size_t i = 0; i < nr; ts = columns.ts[i++])
			check(columns.ts[i] >= ts && columns.ts[i] <= last);
		rows += nr;
		item.array.release(&item.array);
	}
	check(source_bad_records(&recovery_unspool(r)->source) == bad);
	recovery_close(r);
	remove_files();
	return rows;
}

TEST(time_does_not_go_back_and_has_an_end)
{
	const uint64_t back = 5, end = UINT64_MAX;

	make_second_subbuf(&back, 8, offsetof(struct subbuf, ts));
	check(rows_in_order(0, (uint64_t)RECORDS * STEP_NS) == RECORDS);
	make_second_subbuf(&end, 8, offsetof(struct subbuf, ts));
	check(rows_in_order(0, SUBBUF_MAX_TS) == RECORDS);
}

/* kbuffer would go in circles, or read behind the mapping of the spool. */
TEST(sub_buffers_that_mislead_kbuffer_are_left_out)
{
	const uint32_t circle[] = {29, -(uint32_t)sizeof(struct entry)};
	const uint64_t odd = PER_SUBBUF * sizeof(struct entry) + 2;
	const uint64_t stored = SUBBUF_MISSED | SUBBUF_STORED | (SLOT - sizeof(struct subbuf));

	make_second_subbuf(circle, sizeof(circle), sizeof(struct subbuf));
	check(rows_in_order(1, SUBBUF_MAX_TS) == RECORDS - PER_SUBBUF);
	make_second_subbuf(&odd, 8, offsetof(struct subbuf, commit));
	check(rows_in_order(1, SUBBUF_MAX_TS) == RECORDS - PER_SUBBUF);
	make_second_subbuf(&stored, 8, offsetof(struct subbuf, commit));
	check(rows_in_order(1, SUBBUF_MAX_TS) == RECORDS - PER_SUBBUF);
}

TEST(files_that_no_recorder_makes_are_refused)
{
	static const char *const names[] = {"cpu-5",    "cpu70000", "cpu01",      "cpu",
					    "cpu0.old", "cpu 1",    "cpu0.more.", "cpu99999999999"};
	static const char *const fifos[] = {"formats", "tasks"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		make_files();
		write_text(names[i], "");
		refused(NULL, -EBADMSG, "not the name of a CPU's spool");
		unlink(path_of(names[i]));
		remove_files();
	}
	for (size_t i = 0; i < sizeof(fifos) / sizeof(fifos[0]); i++) {
		make_files();
		unlink(path_of(fifos[i]));
		check(!mkfifo(path_of(fifos[i]), 0600));
		refused(NULL, -EINVAL, "not a regular file");
		unlink(path_of(fifos[i]));
		check(!symlink("/dev/zero", path_of(fifos[i])));
		refused(NULL, -EINVAL, "a link");
		remove_files();
	}
	make_files();
	check(!truncate(path_of("formats"), (off_t)1 << 40));
	refused(NULL, -EFBIG, "more than");
	remove_files();
}

TEST(checkpoints_with_sizes_that_wrap_are_refused)
{
	struct checkpoint *checkpoint;
	struct unspool u;
	pthread_t thread;
	uint64_t pfn = 0, *word, cursors, decoder;

	make_files();
	set_up(&u);
	check(!pthread_create(&thread, NULL, unspool_run, &u));
	checkpoint = read_some(&u.source, &pfn);
	unspool_cancel(&u);
	pthread_join(thread, NULL);
	unspool_destroy(&u);

	/* Magic, cursors, gaps, words of the decoder, then the first cursor: cpu, place. */
	word = checkpoint->words;
	cursors = word[1];
	decoder = word[3];
	word[1] = cursors + 1000;
	word[3] = checkpoint->nr - 4 - (word[1] * ((checkpoint->nr - 4 - decoder) / cursors));
	refused(checkpoint, -EBADMSG, "checkpoint is damaged");
	word[1] = cursors;
	word[3] = decoder;
	word[4 + 1] = UINT64_MAX; /* sub-buffers taken from memory */
	refused(checkpoint, -EBADMSG, "does not fit its checkpoint");
	word[4 + 1] = 0;
	word[4 + 3] = UINT64_MAX; /* records taken from the sub-buffer in hand */
	refused(checkpoint, -EBADMSG, "damaged: counts of cpu 0");
	free(checkpoint);
	remove_files();
}

TEST(mismatched_spools_and_checkpoints_are_refused)
{
	struct checkpoint *nonsense = calloc(1, sizeof(*nonsense) + 4 * sizeof(uint64_t));

	refused(NULL, -ENOENT, "contains no spool");
	make_files();
	nonsense->nr = 4;
	refused(nonsense, -EBADMSG, "checkpoint is damaged");
	write_text("formats", "name: mm_page_free");
	refused(NULL, -EBADMSG, "not a file of formats");
	write_text("formats", "pagetape formats 2\nvmstat_update 0\n");
	refused(NULL, -EBADMSG, "of version 2, not 1");
	write_text("formats", "pagetape formats 1\nvmstat_update 0\nevent kmem 99\nshort");
	refused(NULL, -EBADMSG, "damaged");
	unlink(path_of("formats"));
	refused(NULL, -ENOENT, "formats: No such file");
	free(nonsense);
	remove_files();
}

int main(void)
{
	int failed;

	if (!mkdtemp(dir))
		return 1;
	failed = check_run();
	rmdir(dir);
	return failed;
}

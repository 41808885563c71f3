// SPDX-License-Identifier: Apache-2.0
#include "check.h"
#include "ring/subbuf.h"
#include "spool/precedence.h"
#include "spool/spool_internal.h"
#include "spool/spool_rest.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SLOT = 4096, SLOTS = 8 };

static struct spool_budget unbounded;
static char dir[] = "/tmp/test_spool.XXXXXX";

static struct spool *new_spool_of(struct spool_budget *budget, bool keep)
{
	const struct spool_config config = {dir, 0, SLOT, SLOTS, budget, keep, NULL};
	struct spool *spool = NULL;

	check(spool_new(&spool, &config, NULL) == 0);
	return spool;
}

static struct spool *new_spool(void)
{
	return new_spool_of(&unbounded, false);
}

/* A sub-buffer that holds a number. */
static void fill(void *slot, uint64_t number)
{
	struct subbuf *subbuf = slot;

	subbuf->ts = number;
	subbuf->commit = 8;
}

/* Room for one more: what the storing thread does when it is woken, at once. */
static void *take_slot(struct spool *spool)
{
	struct error err = {""};

	while (spool_should_store(spool)) {
		int ret = spool_store(spool, &err);

		if (ret < 0) {
			printf("# %s\n", err.msg);
			break;
		}
	}
	return spool_slot(spool);
}

static void push(struct spool *spool, uint64_t number)
{
	void *slot = take_slot(spool);

	check(slot);
	fill(slot, number);
	spool_push(spool);
}

/* The oldest number, or UINT64_MAX if there is none. */
static uint64_t pop(struct spool *spool)
{
	uint64_t number = UINT64_MAX;
	const void *subbuf;
	int ret = spool_pop(spool, &subbuf, NULL);

	check(ret == 0 || ret == 1);
	if (ret == 1)
		memcpy(&number, subbuf, sizeof(number));
	return number;
}

TEST(an_empty_spool_has_nothing)
{
	struct spool *spool = new_spool();

	check(pop(spool) == UINT64_MAX);
	push(spool, 1);
	check(pop(spool) == 1);
	check(pop(spool) == UINT64_MAX);
	spool_free(spool);
}

TEST(sub_buffers_beyond_memory_come_out_after_it)
{
	struct spool *spool = new_spool();
	uint64_t written, read;

	for (uint64_t n = 0; n < 20 * SLOTS; n++)
		push(spool, n);
	for (uint64_t n = 0; n < 20 * SLOTS; n++)
		check(pop(spool) == n);
	check(pop(spool) == UINT64_MAX);
	spool_progress(spool, &written, &read);
	check(written == 20 * SLOTS && read == 20 * SLOTS);
	spool_free(spool);
}

/* Bursts of growing size, each drained to a varying rest: every way over and back. */
TEST(order_holds_however_far_the_reader_is_behind)
{
	struct spool *spool = new_spool();
	uint64_t in = 0, out = 0;

	for (uint64_t round = 0; round < 60; round++) {
		for (uint64_t i = 0; i < round % 37; i++)
			push(spool, in++);
		while (in - out > round % 23)
			check(pop(spool) == out++);
	}
	while (out < in)
		check(pop(spool) == out++);
	check(pop(spool) == UINT64_MAX);
	spool_free(spool);
}

enum { MANY = 2000 };

static void *write_many(void *spool)
{
	for (uint64_t n = 0; n < MANY; n++)
		push(spool, n);
	return NULL;
}

TEST(two_threads_agree_on_the_order)
{
	struct spool *spool = new_spool();
	pthread_t writer;

	check(pthread_create(&writer, NULL, write_many, spool) == 0);
	for (uint64_t n = 0; n < MANY;) {
		uint64_t number = pop(spool);

		if (number == UINT64_MAX) {
			sched_yield();
			continue;
		}
		check(number == n);
		n = number + 1;
	}
	pthread_join(writer, NULL);
	spool_free(spool);
}

/* The numbers that a directory holds, in their order, from `place` on: `first` to before `end`. */
static void holds(uint64_t place, uint64_t first, uint64_t end)
{
	struct spool *spool;
	struct error err = {""};

	check(spool_open(&spool, dir, 0, &err) == 0);
	if (!spool) {
		printf("# %s\n", err.msg);
		return;
	}
	check(spool_seek(spool, place, NULL) == 0);
	while (first < end && pop(spool) == first)
		first++;
	check(first == end);
	check(pop(spool) == UINT64_MAX);
	spool_free(spool);
}

static void remove_files(void)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/cpu0", dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s/cpu0.more", dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s/cpu0.rest", dir);
	unlink(path);
}

TEST(a_stored_spool_can_be_read_again)
{
	static const uint64_t start = 0;
	struct spool *spool = new_spool_of(&unbounded, true);

	for (uint64_t n = 0; n < 5 * SLOTS; n++) {
		push(spool, n);
		holds(start, 0, n + 1);
	}
	while (pop(spool) != UINT64_MAX)
		;
	holds(start, 0, 5 * SLOTS);
	spool_free(spool);
	holds(start, 0, 5 * SLOTS);
	remove_files();
}

/* Read with a checkpoint every few pops; a reader may be killed at each. */
TEST(nothing_is_lost_or_read_twice_after_a_release)
{
	struct spool *spool = new_spool_of(&unbounded, true);
	uint64_t place = 0;
	uint64_t in = 0, out = 0, safe = 0;

	for (uint64_t round = 0; round < 60; round++) {
		for (uint64_t i = 0; i < round % 13; i++)
			push(spool, in++);
		while (in - out > round % 7)
			check(pop(spool) == out++);
		if (round % 3 == 0) {
			place = spool_place(spool, true);
			safe = out;
			holds(place, safe, in); /* not yet released */
			spool_release(spool, place);
		}
		holds(place, safe, in);
	}
	spool_free(spool);
	remove_files();
}

TEST(the_place_of_the_one_in_hand_is_not_behind_it)
{
	struct spool *spool = new_spool_of(&unbounded, true);

	for (uint64_t n = 0; n < 2 * SLOTS; n++)
		push(spool, n);
	for (uint64_t n = 0; n < 2 * SLOTS; n++) {
		check(pop(spool) == n);
		holds(spool_place(spool, false), n, 2 * SLOTS);
		holds(spool_place(spool, true), n + 1, 2 * SLOTS);
	}
	spool_free(spool);
	remove_files();
}

/* Killed between the read() of a sub-buffer and the end of spool_push, in memory or not. */
TEST(a_sub_buffer_taken_but_not_counted_is_found)
{
	static const uint64_t start = 0;
	struct spool *spool = new_spool_of(&unbounded, true);

	for (uint64_t n = 0; n < 3 * SLOTS; n++) {
		void *slot = take_slot(spool);

		holds(start, 0, n);
		fill(slot, n);
		holds(start, 0, n + 1);
		spool_push(spool);
		holds(start, 0, n + 1);
	}
	spool_free(spool);
	remove_files();
}

TEST(old_contents_of_a_slot_are_not_taken_for_new_ones)
{
	struct spool *spool = new_spool_of(&unbounded, true);
	uint64_t place;

	for (uint64_t n = 0; n < 3 * SLOTS; n++) {
		push(spool, n);
		check(pop(spool) == n);
		place = spool_place(spool, true);
		spool_release(spool, place);
		holds(place, 0, 0);
	}
	spool_free(spool);
	remove_files();
}

TEST(a_budget_bounds_the_overflow_until_there_is_room)
{
	struct spool_budget budget = {.max = 2 * SLOT};
	struct spool *spool = new_spool_of(&budget, false);
	struct error err = {""};
	uint64_t in = 0, out = 0;
	void *slot;
	int ret;

	while ((slot = spool_slot(spool))) {
		fill(slot, in++);
		spool_push(spool);
		ret = spool_store(spool, &err);
		check(ret >= 0 || (ret == -EDQUOT && budget.used == 2 * SLOT));
	}
	check(in == SLOTS + 2);
	check(strstr(err.msg, " is full"));
	check(spool_problem(spool) == -EDQUOT);
	check(budget.used == 2 * SLOT);
	while (out < in)
		check(pop(spool) == out++);
	check(pop(spool) == UINT64_MAX);
	check(spool_store(spool, NULL) == 0);
	check(spool_problem(spool) == 0);
	check(budget.used == 0);
	push(spool, in);
	check(pop(spool) == in);
	check(spool_load(spool).peak_bytes == (SLOTS + 2) * SLOT);
	spool_free(spool);
}

TEST(a_spool_stores_how_the_recording_ended)
{
	const struct ring_stats counts = {1, 2, 3, 4, 5};
	struct spool *spool = new_spool_of(&unbounded, true), *past;

	check(spool_open(&past, dir, 0, NULL) == 0);
	check(!strcmp(spool_past(past).ended, ""));
	spool_free(past);
	spool_end(spool, "disk full", &counts);
	spool_free(spool);
	check(spool_open(&past, dir, 0, NULL) == 0);
	check(!strcmp(spool_past(past).ended, "disk full"));
	check(spool_past(past).counts.overrun == counts.overrun);
	check(spool_past(past).counts.read == counts.read);
	spool_free(past);
	remove_files();
}

#define offsetof_header(member) (off_t) offsetof(struct spool_header, member)

/* Write over the beginning of a spool of one overflown sub-buffer, or cut its files. */
static void damage(off_t at, const void *bytes, size_t nr, const char *words)
{
	struct spool *spool = new_spool_of(&unbounded, true), *past;
	struct error err = {""};
	char path[64];
	int fd;

	for (uint64_t n = 0; n <= SLOTS; n++)
		push(spool, n);
	spool_free(spool);
	snprintf(path, sizeof(path), "%s/cpu0%s", dir, nr || at ? "" : ".more");
	fd = open(path, O_RDWR);
	check((nr ? pwrite(fd, bytes, nr, at) == (ssize_t)nr : ftruncate(fd, at) == 0));
	close(fd);
	check(spool_open(&past, dir, 0, &err) == -EBADMSG);
	check(past == NULL);
	check(strstr(err.msg, words));
	if (!strstr(err.msg, words))
		printf("# %s\n", err.msg);
	remove_files();
}

TEST(foreign_and_damaged_spools_are_refused_in_words)
{
	const uint32_t swapped = 0x04030201, version = 99, word = 2;
	/* In bytes, the last one wraps to a small place in the file. */
	const uint64_t none = 0, many = UINT64_MAX, wrapping = (1ull << 52) + 1;

	damage(0, "ARROW1", 6, "not a spool");
	damage(8, &swapped, 4, "the other byte order");
	damage(12, &version, 4, "of version 99, not 2");
	damage(16, &word, 4, "words of 2 bytes");
	damage(24, &none, 8, "damaged");
	damage(32, &many, 8, "damaged");
	damage(192, &many, 8, "damaged");
	damage(100, NULL, 0, "not a spool");
	damage(3 * 4096, NULL, 0, "truncated");
	damage(0, NULL, 0, "cpu0.more: truncated");
	damage(offsetof_header(filled), &many, 8, "damaged");
	damage(offsetof_header(stored), &many, 8, "damaged");
	damage(offsetof_header(stored), &wrapping, 8, "damaged");
	damage(offsetof_header(released), &wrapping, 8, "damaged");
	damage(offsetof_header(file_slots), &none, 8, "damaged");
	damage(offsetof_header(file_slots), &many, 8, "damaged");
	damage(offsetof_header(file_base), &wrapping, 8, "truncated");
	damage(offsetof_header(start.cpu), &word, 4, "the spool of cpu 2");
	damage(offsetof_header(start.counts), &many, 8, "damaged counts");
}

/* The overflow is as long as its counts say, but a writer would have left no hole. */
TEST(an_overflow_of_holes_ends_before_the_first_one)
{
	const uint64_t many = 1 << 20;
	struct spool *spool = new_spool_of(&unbounded, true), *past;
	uint64_t stored = 0;
	char path[64];
	int fd;

	for (uint64_t n = 0; n < SLOTS + 5; n++)
		push(spool, n);
	spool_free(spool);
	snprintf(path, sizeof(path), "%s/cpu0.more", dir);
	check(truncate(path, (off_t)many * SLOT) == 0);
	snprintf(path, sizeof(path), "%s/cpu0", dir);
	fd = open(path, O_RDWR);
	check(pread(fd, &stored, 8, offsetof_header(stored)) == 8 && stored > 1);
	check(pwrite(fd, &many, 8, offsetof_header(stored)) == 8);
	check(pwrite(fd, &many, 8, offsetof_header(filled)) == 8);
	close(fd);
	check(spool_open(&past, dir, 0, NULL) == 0);
	for (uint64_t n = 0; n < stored; n++)
		check(pop(past) == n);
	check(pop(past) == UINT64_MAX);
	check(spool_past(past).cut);
	spool_free(past);
	remove_files();
}

TEST(only_regular_files_are_opened)
{
	static const char *const names[] = {"cpu0", "cpu0.more"};

	for (int i = 0; i < 4; i++) {
		struct spool *spool = new_spool_of(&unbounded, true), *past;
		struct error err = {""};
		char path[64];

		push(spool, 1);
		spool_free(spool);
		snprintf(path, sizeof(path), "%s/%s", dir, names[i % 2]);
		check(!unlink(path));
		check(i < 2 ? !mkfifo(path, 0600) : !symlink("/dev/zero", path));
		check(spool_open(&past, dir, 0, &err) == -EINVAL);
		check(strstr(err.msg, i < 2 ? "not a regular file" : "a link"));
		remove_files();
	}
}

/* A file as a guard leaves it: two sub-buffers, and `more` bytes of a third. */
static void write_rest(struct spool_rest_header header, size_t more)
{
	char path[PATH_MAX], slot[SLOT] = {0};
	FILE *file;

	snprintf(path, sizeof(path), "%s/cpu0.rest", dir);
	file = fopen(path, "we");
	check(file);
	fwrite(&header, sizeof(header), 1, file);
	fseek(file, SPOOL_REST_HEADER, SEEK_SET);
	for (uint64_t number = 1; number <= 2; number++) {
		fill(slot, number);
		fwrite(slot, sizeof(slot), 1, file);
	}
	fwrite(slot, 1, more, file);
	fclose(file);
}

static const struct spool_rest_header rest_header = {
	.magic = SPOOL_REST_MAGIC,
	.byte_order = BYTE_ORDER_MARK,
	.long_bytes = sizeof(long),
	.slot_bytes = SLOT,
	.counted = 1,
	.counts = {.overrun = 7},
};

TEST(the_rest_of_a_ring_is_read_up_to_its_last_whole_sub_buffer)
{
	struct error err = {""};
	struct spool_rest *rest;
	const void *subbuf;

	check(spool_rest_open(&rest, dir, 0, SLOT, &err) == 0 && !rest); /* none */
	write_rest(rest_header, 100);
	check(spool_rest_bytes(dir, 0) == 2 * SLOT + 100);
	check(spool_rest_open(&rest, dir, 0, SLOT, &err) == 0 && rest);
	check(spool_rest_counts(rest)->overrun == 7);
	for (uint64_t number = 1; number <= 2; number++) {
		check(spool_rest_pop(rest, &subbuf, &err) == 1);
		check(((const struct subbuf *)subbuf)->ts == number);
	}
	check(spool_rest_pop(rest, &subbuf, &err) == 0);
	spool_rest_free(rest);
	remove_files();
}

TEST(a_guard_that_was_killed_leaves_no_counts)
{
	struct spool_rest_header header = rest_header;
	struct spool_rest *rest;

	header.counted = 0;
	write_rest(header, 0);
	check(spool_rest_open(&rest, dir, 0, SLOT, NULL) == 0 && rest);
	check(!spool_rest_counts(rest) && !spool_rest_counts(NULL));
	spool_rest_free(rest);
	remove_files();
}

TEST(a_foreign_rest_is_refused_in_words)
{
	struct spool_rest_header header = rest_header;
	struct error err = {""};
	struct spool_rest *rest;

	write_rest(header, 0);
	check(spool_rest_open(&rest, dir, 0, 2 * SLOT, &err) == -EBADMSG);
	check(strstr(err.msg, "sub-buffers of 4096 bytes, not 8192") && !rest);
	header.byte_order = __builtin_bswap32(header.byte_order);
	write_rest(header, 0);
	check(spool_rest_open(&rest, dir, 0, SLOT, &err) == -EBADMSG);
	check(strstr(err.msg, "not the rest of a spool"));
	remove_files();
}

TEST(a_missing_directory_is_named)
{
	const struct spool_config config = {"/nowhere", 0, SLOT, SLOTS, &unbounded, false, NULL};
	struct error err = {""};
	struct spool *spool;

	check(spool_new(&spool, &config, &err) == -ENOENT);
	check(!strcmp(err.msg, "cannot make a spool file in /nowhere: No such file or directory"));
	check(spool == NULL);
}

TEST(the_rest_of_a_page_is_not_the_end_of_its_ring)
{
	const size_t page = 4080;

	check(subbuf_is_newest(4060, 40, page)); /* a full page, then one that is being written */
	check(subbuf_is_newest(page, 1, page));
	check(!subbuf_is_newest(0, 40, page));      /* the first read may be a rest */
	check(!subbuf_is_newest(2500, 1500, page)); /* a page in two reads, others may follow */
	check(!subbuf_is_newest(2500, 1580, page)); /* ... to its last byte */
	check(!subbuf_is_newest(4060, 2040, page)); /* half a page may be a whole one, padded */
	check(!subbuf_is_newest(4060, 4060, page));
}

static void *precede(void *arg)
{
	(void)arg;
	take_precedence();
	check(sched_getscheduler(0) == (SCHED_FIFO | SCHED_RESET_ON_FORK) ||
	      getpriority(PRIO_PROCESS, 0) < 0 || geteuid());
	return NULL;
}

TEST(the_threads_of_a_spool_run_before_those_of_the_load)
{
	pthread_t thread;

	check(!pthread_create(&thread, NULL, precede, NULL));
	pthread_join(thread, NULL);
	check(sched_getscheduler(0) == SCHED_OTHER); /* the others of the process stay */
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

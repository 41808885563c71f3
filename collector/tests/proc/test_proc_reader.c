// SPDX-License-Identifier: Apache-2.0
#include "check.h"
#include "proc/proc_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MS = 1000000, SLOTS = 4 };

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

static void sleep_ms(int ms)
{
	nanosleep(&(struct timespec){.tv_nsec = ms * (long)MS}, NULL);
}

static struct proc_reader *reader_of(const struct proc_file *files, unsigned nr)
{
	struct proc_reader *r = NULL;

	check(!proc_reader_new(&r, files, nr, SLOTS, NULL));
	return r;
}

static int file_of(const char *text)
{
	FILE *file = tmpfile();
	int fd = dup(fileno(file));

	check(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	fclose(file);
	return fd;
}

TEST(each_file_has_its_own_stamps)
{
	struct proc_file files[] = {
		{.fd = open("/proc/vmstat", O_RDONLY), .size = 1 << 16},
		{.fd = file_of("60\n"), .size = 64, .sysctl = true},
	};
	struct proc_reader *r = reader_of(files, 2);
	uint64_t before = now(), after;
	const struct proc_reading *found;

	check(!proc_reader_peek(r));
	check(!proc_reader_ask(r));
	after = now();
	found = proc_reader_peek(r);
	check(found->texts[0].length > 1000);
	check(found->texts[0].bytes[found->texts[0].length - 1] == '\n');
	check(found->texts[1].length == 3 && !memcmp(found->texts[1].bytes, "60\n", 3));
	check(before <= found->texts[0].began && found->texts[0].began < found->texts[0].ended);
	check(found->texts[0].ended <= found->texts[1].began);
	check(found->texts[1].ended <= after);
	proc_reader_drop(r);
	check(!proc_reader_peek(r));
	proc_reader_free(r);
}

TEST(a_file_that_cannot_be_read_has_no_text)
{
	struct proc_file files[] = {
		{.fd = open("/proc", O_RDONLY), .size = 64},
		{.fd = file_of("a text that is too long"), .size = 8},
		{.fd = file_of("1\n"), .size = 64},
	};
	struct proc_reader *r = reader_of(files, 3);
	const struct proc_reading *found;

	check(!proc_reader_ask(r));
	found = proc_reader_peek(r);
	check(found->texts[0].length == -EISDIR);
	check(found->texts[1].length == -EFBIG);
	check(found->texts[2].length == 2);
	proc_reader_free(r);
}

TEST(a_full_queue_is_counted_in_the_next_reading)
{
	struct proc_file file = {.fd = file_of("1\n"), .size = 64};
	struct proc_reader *r = reader_of(&file, 1);

	for (int i = 0; i < SLOTS; i++)
		check(!proc_reader_ask(r));
	check(proc_reader_ask(r) == -ENOBUFS);
	check(proc_reader_ask(r) == -ENOBUFS);
	for (int i = 0; i < SLOTS; i++) {
		check(!proc_reader_peek(r)->missed[PROC_MISSED_FULL]);
		proc_reader_drop(r);
	}
	check(!proc_reader_ask(r));
	check(proc_reader_peek(r)->missed[PROC_MISSED_FULL] == 2);
	proc_reader_free(r);
}

TEST(readings_come_at_each_period)
{
	struct proc_file file = {.fd = file_of("1\n"), .size = 64};
	struct proc_reader *r = reader_of(&file, 1);
	uint64_t start = now();
	unsigned nr = 0, missed = 0, due;

	proc_reader_start(r, 10 * MS, 1000000);
	while (now() < start + 300 * (uint64_t)MS) {
		const struct proc_reading *found;

		proc_reader_wait(r, 50);
		found = proc_reader_peek(r);
		if (!found)
			continue;
		nr++;
		missed += found->missed[PROC_MISSED_LATE] + found->missed[PROC_MISSED_FULL];
		check(found->texts[0].began >= start + nr * (uint64_t)(10 * MS));
		proc_reader_drop(r);
	}
	proc_reader_hold(r, true);
	while (proc_reader_peek(r))
		proc_reader_drop(r), nr++;
	check(!proc_reader_ask(r));
	missed += proc_reader_peek(r)->missed[PROC_MISSED_LATE];
	due = (now() - start) / (10 * MS);
	check(nr > 1 && nr + missed + 1 >= due && nr + missed <= due); /* none in silence */
	proc_reader_free(r);
}

TEST(readings_beyond_their_share_are_left_out_and_counted)
{
	struct proc_file files[] = {
		{.fd = file_of("1\n"), .size = 64},
		{.fd = file_of("2\n"), .size = 64, .sysctl = true},
	};
	struct proc_reader *r = reader_of(files, 2);
	const struct proc_reading *found;
	unsigned thinned = 0;

	proc_reader_start(r, 5 * MS, 10);
	proc_reader_charge(r, 10000 * (uint64_t)MS);
	while (thinned < SLOTS - 1) { /* without an end if the sysctl is not read */
		proc_reader_wait(r, 1000);
		for (; (found = proc_reader_peek(r)); thinned++) {
			check(found->texts[0].length == -ECANCELED);
			check(found->texts[1].length == 2);
			check(!found->missed[PROC_MISSED_THINNED]);
			proc_reader_drop(r);
		}
	}
	proc_reader_hold(r, true);
	while (proc_reader_peek(r))
		proc_reader_drop(r);
	check(!proc_reader_ask(r));
	while ((found = proc_reader_peek(r)) && found->texts[0].length < 0)
		proc_reader_drop(r);
	check(found && found->missed[PROC_MISSED_THINNED] >= thinned);
	proc_reader_free(r);
}

TEST(a_held_reader_reads_only_when_asked)
{
	struct proc_file file = {.fd = file_of("1\n"), .size = 64};
	struct proc_reader *r = reader_of(&file, 1);

	proc_reader_hold(r, true);
	proc_reader_start(r, 5 * MS, 1000000);
	sleep_ms(50);
	check(!proc_reader_peek(r));
	check(!proc_reader_ask(r));
	check(proc_reader_peek(r)->missed[PROC_MISSED_LATE] > 0);
	proc_reader_drop(r);
	proc_reader_hold(r, false);
	while (!proc_reader_peek(r)) /* without an end if it does not read again */
		proc_reader_wait(r, 1000);
	proc_reader_free(r);
}

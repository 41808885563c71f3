// SPDX-License-Identifier: Apache-2.0
#include "check.h"
#include "spool.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

enum { SLOT = 4096, SLOTS = 8 };

static struct spool *new_spool(void)
{
	struct spool *spool = NULL;
	struct error err = {""};

	check(spool_new(&spool, "/tmp", SLOT, SLOTS, &err) == 0);
	return spool;
}

static void push(struct spool *spool, uint64_t number)
{
	memcpy(spool_slot(spool), &number, sizeof(number));
	check(spool_push(spool, sizeof(number), NULL) == 0);
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

static void an_empty_spool_has_nothing(void)
{
	struct spool *spool = new_spool();

	check(pop(spool) == UINT64_MAX);
	push(spool, 1);
	check(pop(spool) == 1);
	check(pop(spool) == UINT64_MAX);
	spool_free(spool);
}

static void what_memory_has_no_room_for_comes_out_after_it(void)
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
static void order_holds_however_far_the_reader_is_behind(void)
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

static void two_threads_agree_on_the_order(void)
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

static void a_directory_that_is_not_there_is_named(void)
{
	struct error err = {""};
	struct spool *spool;

	check(spool_new(&spool, "/nowhere", SLOT, SLOTS, &err) == -ENOENT);
	check(!strcmp(err.msg, "cannot make a spool file in /nowhere: No such file or directory"));
	check(spool == NULL);
}

int main(void)
{
	test(an_empty_spool_has_nothing);
	test(what_memory_has_no_room_for_comes_out_after_it);
	test(order_holds_however_far_the_reader_is_behind);
	test(two_threads_agree_on_the_order);
	test(a_directory_that_is_not_there_is_named);
	return check_done();
}

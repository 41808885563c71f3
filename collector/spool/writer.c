// SPDX-License-Identifier: Apache-2.0
#include "writer.h"

#include "precedence.h"
#include "input/thread.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
	STACK_BYTES = 128 * 1024,
	PROBLEM_MS = 20, /* between two tries to write to a full disk */
	TIDY_MS = 100,   /* between two looks for file space to free */
};

struct writer {
	struct writer_config config;
	int bell; /* an eventfd */
	pthread_t thread;
	atomic_bool awake, over;
};

/* What one round found. */
struct round {
	bool stored, problem;
	struct spool_use use;
};

static struct round store_round(const struct writer *writer)
{
	struct round round = {0};

	for (int i = 0; i < writer->config.nr; i++) {
		struct spool *spool = writer->config.spools[i];
		int ret = spool_store(spool, NULL); /* its reader reports a problem */

		round.stored = round.stored || ret > 0;
		round.problem = round.problem || ret < 0;
		spool_add_use(spool, &round.use);
	}
	if (writer->config.watch)
		writer->config.watch(writer->config.context, &round.use);
	return round;
}

static bool has_work(const struct writer *writer)
{
	for (int i = 0; i < writer->config.nr; i++)
		if (spool_should_store(writer->config.spools[i]))
			return true;
	return false;
}

/* Until a reader calls, or it is time to free file space. */
static void rest(struct writer *writer, const struct round *last)
{
	struct pollfd bell = {.fd = writer->bell, .events = POLLIN};
	int ms = -1;
	eventfd_t calls;

	if (last->problem)
		ms = PROBLEM_MS;
	else if (last->use.file || last->use.memory > last->use.memory_size / 8)
		ms = TIDY_MS;
	atomic_store(&writer->awake, false);
	/* A reader that pushed before that line saw the writer awake, and did not call. */
	if ((last->problem || !has_work(writer)) && !atomic_load(&writer->over))
		poll(&bell, 1, ms);
	atomic_store(&writer->awake, true);
	if (bell.revents & POLLIN)
		eventfd_read(writer->bell, &calls);
}

static void *write_spools(void *arg)
{
	struct writer *writer = arg;

	pthread_setname_np(pthread_self(), "pagetape-write");
	take_precedence();
	while (!atomic_load(&writer->over)) {
		const struct round round = store_round(writer);

		if (!round.stored)
			rest(writer, &round);
	}
	return NULL;
}

static int start_thread(struct writer *writer, struct error *err)
{
	pthread_attr_t attr;
	int ret;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	ret = thread_start(&writer->thread, &attr, write_spools, writer);
	if (ret)
		return fail(err, ret, "cannot start the writer of the spool: %s", strerror(ret));
	return 0;
}

static void destroy(struct writer *writer)
{
	if (writer->bell >= 0)
		close(writer->bell);
	free(writer->config.spools);
	free(writer);
}

int writer_new(struct writer **out, const struct writer_config *config, struct error *err)
{
	size_t bytes = (size_t)config->nr * sizeof(*config->spools);
	struct writer *writer = calloc(1, sizeof(*writer));
	int ret = 0;

	*out = NULL;
	if (!writer)
		return fail(err, ENOMEM, "no memory for the writer of a spool");
	writer->config = *config;
	writer->config.spools = malloc(bytes);
	writer->bell = eventfd(0, EFD_CLOEXEC);
	atomic_init(&writer->awake, true);
	if (!writer->config.spools)
		ret = fail(err, ENOMEM, "no memory for the writer of %d spools", config->nr);
	else if (writer->bell < 0)
		ret = fail(err, errno, "cannot make an eventfd: %s", strerror(errno));
	if (!ret) {
		memcpy(writer->config.spools, config->spools, bytes);
		ret = start_thread(writer, err);
	}
	if (ret) {
		destroy(writer);
		return ret;
	}
	*out = writer;
	return 0;
}

void writer_wake(struct writer *writer)
{
	if (!atomic_exchange(&writer->awake, true))
		eventfd_write(writer->bell, 1);
}

void writer_free(struct writer *writer)
{
	if (!writer)
		return;
	atomic_store(&writer->over, true);
	eventfd_write(writer->bell, 1);
	pthread_join(writer->thread, NULL);
	destroy(writer);
}

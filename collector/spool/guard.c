// SPDX-License-Identifier: Apache-2.0
/*
 * guard - clears up after a killed recorder; see guard_start.h.
 *
 *	guard INSTANCE
 *
 * It uses the C library only, and allocates nothing while the recorder runs.
 */
#include "ring/guard.h"
#include "spool_rest.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
	MAX_CPUS = 65536,
	/* The killed recorder's threads hold the rings until the last of them has ended. */
	REMOVE_TRIES = 1000,
	REMOVE_TRY_NS = 10 * 1000 * 1000,
};

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* Keep nothing of the recorder but the two descriptors, and no signal's reach. */
static void settle(bool has_spool)
{
	static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};
	int fd;

	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		signal(ignored[i], SIG_IGN);
	close_range(GUARD_SPOOL + has_spool, ~0u, 0);
	prctl(PR_SET_NAME, GUARD_NAME);
	/* A machine out of memory should not choose the guard; needs CAP_SYS_RESOURCE. */
	fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd >= 0) {
		(void)!write(fd, "-1000", 5);
		close(fd);
	}
	(void)!chdir("/");
}

static void wait_for_end(void)
{
	char byte;

	while (read(GUARD_PIPE, &byte, 1) > 0 || errno == EINTR)
		errno = 0;
}

static void switch_off(int instance, const char *file)
{
	int fd = openat(instance, file, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	(void)!write(fd, "0", 1);
	close(fd);
}

/* Store the rest of each ring that has a spool. */
static void store_rest(int instance)
{
	struct stat st;
	char name[32];

	for (int cpu = 0; cpu < MAX_CPUS; cpu++) {
		snprintf(name, sizeof(name), "per_cpu/cpu%d", cpu);
		if (fstatat(instance, name, &st, 0))
			break;
		snprintf(name, sizeof(name), "cpu%d", cpu);
		if (!fstatat(GUARD_SPOOL, name, &st, 0))
			spool_rest_store(GUARD_SPOOL, instance, cpu);
	}
}

int main(int argc, char **argv)
{
	const struct timespec moment = {0, REMOVE_TRY_NS};
	bool has_spool = is_open(GUARD_SPOOL);
	char *parent = argc == 2 ? strdup(argv[1]) : NULL;
	const char *name = argc == 2 ? strrchr(argv[1], '/') : NULL;
	int instances, instance;

	if (!parent || !name) {
		fputs("usage: guard INSTANCE, started by pagetape record\n", stderr);
		return 2;
	}
	settle(has_spool);
	/* An open directory outlives a tracefs that is unmounted meanwhile. */
	instances = open(dirname(parent), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	free(parent);
	if (instances < 0)
		return 1;
	wait_for_end();
	name++;
	instance = openat(instances, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (instance < 0)
		return 0;
	switch_off(instance, "tracing_on");
	switch_off(instance, "events/enable");
	if (has_spool) {
		store_rest(instance);
		close(GUARD_SPOOL); /* and its lock: from now on the spool can be imported */
	}
	close(instance);
	for (int i = 0; i < REMOVE_TRIES; i++) {
		if (!unlinkat(instances, name, AT_REMOVEDIR) || errno != EBUSY)
			return errno == EBUSY;
		nanosleep(&moment, NULL);
	}
	return 1;
}

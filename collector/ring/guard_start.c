// SPDX-License-Identifier: Apache-2.0
#include "guard_start.h"

#include "guard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	FREE_FD = 10, /* above the numbers that the guard gets */
	END_TRIES = 100,
	END_TRY_NS = 1000000,
};

extern char **environ;

/* Start the guard with `pipe` and `spool` at their numbers. Returns an errno. */
static int spawn(pid_t *pid, const char *program, const char *path, int pipe, int spool)
{
	char *const argv[] = {(char *)GUARD_NAME, (char *)path, NULL};
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none;
	int ret;

	sigemptyset(&none);
	posix_spawn_file_actions_init(&files);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
	/* Not the recorder's stderr: its reader waits until the last writer has gone. */
	ret = posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	ret = ret ?: posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
	ret = ret ?: posix_spawn_file_actions_adddup2(&files, pipe, GUARD_PIPE);
	if (spool >= 0)
		ret = ret ?: posix_spawn_file_actions_adddup2(&files, spool, GUARD_SPOOL);
	ret = ret ?: posix_spawn(pid, program, &files, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	return ret;
}

int guard_start(struct guard *guard, const char *program, const char *path, int spool,
		struct error *err)
{
	int ends[2], high = -1, ret = 0;

	*guard = (struct guard){0, -1};
	if (pipe2(ends, O_CLOEXEC))
		return fail(err, errno, "cannot make a pipe: %s", strerror(errno));
	guard->pipe = ends[1];
	high = fcntl(ends[0], F_DUPFD_CLOEXEC, FREE_FD);
	if (high >= 0 && spool >= 0)
		spool = fcntl(spool, F_DUPFD_CLOEXEC, FREE_FD);
	if (high < 0)
		ret = errno;
	else
		ret = spawn(&guard->pid, program, path, high, spool);
	close(ends[0]);
	if (high >= 0) {
		close(high);
		if (spool >= 0)
			close(spool);
	}
	if (!ret)
		return 0;
	guard->pid = 0;
	guard_end(guard);
	return fail(err, ret, "cannot start %s: %s", program, strerror(ret));
}

void guard_end(struct guard *guard)
{
	const struct timespec moment = {0, END_TRY_NS};

	if (guard->pipe >= 0)
		close(guard->pipe);
	guard->pipe = -1;
	/* It ends at once, unless another user holds the instance. */
	for (int i = 0; guard->pid && i < END_TRIES; i++) {
		if (waitpid(guard->pid, NULL, WNOHANG))
			break;
		nanosleep(&moment, NULL);
	}
	guard->pid = 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION /* libFuzzer: many small files */
enum { MIN_SECONDS = 1 };
#else
enum { MIN_SECONDS = 4 };
#endif

enum {
	SURVIVED = '\6', /* last byte that the child writes after it read the file */
	BYTES_PER_SECOND = 16 << 20,
	DATA_MB = 1536, /* more memory than the caller has */
	MIN_INFLATED_MB = 1024,
	MOST_INFLATED =
		64, /* times the file: no compressor of trace-cmd saves that much of a ring */
};

/* Bytes of private memory of this process; 0 if /proc is not mounted. */
static uint64_t data_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long long pages = 0;

	if (!file)
		return 0;
	if (fscanf(file, "%*u %*u %*u %*u %*u %llu", &pages) != 1)
		pages = 0;
	fclose(file);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void limit(int resource, uint64_t most)
{
	struct rlimit to = {most, most}, from;

	if (!getrlimit(resource, &from) && from.rlim_max < most)
		to.rlim_max = to.rlim_cur = from.rlim_max;
	setrlimit(resource, &to);
}

/* An endless loop, memory or temporary files without bound end the child. */
static void set_limits(const struct probe *p)
{
	uint64_t seconds = MIN_SECONDS + p->bytes / BYTES_PER_SECOND, data = data_bytes();
	uint64_t inflated = (uint64_t)MIN_INFLATED_MB << 20;

	if (p->bytes > inflated / MOST_INFLATED)
		inflated = p->bytes * MOST_INFLATED;
	limit(RLIMIT_CPU, seconds);
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_FSIZE, inflated);
	if (data)
		limit(RLIMIT_DATA, data + ((uint64_t)DATA_MB << 20));
	alarm((unsigned)(MIN_SECONDS + 4 * seconds)); /* on a busy machine */
}

/* The output of the library there becomes the error message. */
static void probe_child(const struct probe *p, int out)
{
	struct error err;
	sigset_t all;
	int ret;

	for (int sig = 1; sig < NSIG; sig++) /* Python's signal handlers must not run here */
		signal(sig, SIG_DFL);
	sigfillset(&all);
	sigprocmask(SIG_UNBLOCK, &all, NULL);
	set_limits(p);
	dup2(out, STDOUT_FILENO);
	dup2(out, STDERR_FILENO);
	ret = p->read_all(p->arg, &err);
	fflush(stdout);
	if (!ret && write(out, &(char){SURVIVED}, 1) != 1)
		_exit(1);
	_exit(0);
}

/* The last line that the child printed, without what a terminal would obey. */
static const char *last_line(char *text)
{
	size_t length = strlen(text);
	char *line;

	for (char *c = text; *c; c++)
		if (*c != '\n' && (*c < ' ' || *c > '~'))
			*c = '?';
	while (length && strchr("\n ", text[length - 1]))
		text[--length] = '\0';
	line = strrchr(text, '\n');
	return line ? line + 1 : text;
}

int probe(const struct probe *p, struct error *err)
{
	char said[400] = "";
	size_t length = 0;
	int pipes[2], status = 0;
	ssize_t n;
	pid_t pid;

	if (pipe2(pipes, O_CLOEXEC))
		return fail(err, errno, "%s: cannot make a pipe: %s", p->path, strerror(errno));
	pid = fork();
	if (pid < 0) {
		int code = errno;

		close(pipes[0]);
		close(pipes[1]);
		return fail(err, code, "%s: cannot fork: %s", p->path, strerror(code));
	}
	if (!pid)
		probe_child(p, pipes[1]);
	close(pipes[1]);
	while ((n = read(pipes[0], said + length, sizeof(said) - 1 - length)) > 0 ||
	       (n < 0 && errno == EINTR)) {
		length += n > 0 ? (size_t)n : 0;
		if (length == sizeof(said) - 1) { /* only the last line matters */
			memmove(said, said + length / 2, length - length / 2);
			length -= length / 2;
		}
	}
	said[length] = '\0';
	close(pipes[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		; /* with SIGCHLD ignored there is no status: the pipe suffices */
	if (length && said[length - 1] == SURVIVED)
		return 0;
	if (WIFSIGNALED(status)) {
		int sig = WTERMSIG(status);

		return fail(err, sig == SIGXCPU || sig == SIGALRM ? ETIME : EFAULT,
			    "%s: damaged (%s: %s)", p->path, p->library, strsignal(sig));
	}
	return fail(err, EBADMSG, "%s: damaged or truncated%s%s", p->path, length ? ": " : "",
		    last_line(said));
}

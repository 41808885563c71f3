// SPDX-License-Identifier: Apache-2.0
#include "dat_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SURVIVED = '\6' }; /* last byte that the child writes after it read the file */

/* The file must exist and begin like a trace.dat of a known version. */
static int check_start(const char *path, off_t *size, struct error *err)
{
	static const char magic[] = {0x17, 0x08, 0x44, 't', 'r', 'a', 'c', 'i', 'n', 'g'};
	char start[sizeof(magic) + 2];
	struct stat st;
	ssize_t n;
	int fd;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st)) {
		int code = errno;

		if (fd >= 0)
			close(fd);
		return fail(err, code, "%s: %s", path, strerror(code));
	}
	if (!S_ISREG(st.st_mode)) {
		close(fd);
		return fail(err, EINVAL, "%s: not a regular file", path);
	}
	n = read(fd, start, sizeof(start));
	close(fd);
	*size = st.st_size;
	if (!st.st_size)
		return fail(err, EBADMSG, "%s: empty", path);
	if (n < (ssize_t)sizeof(start) || memcmp(start, magic, sizeof(magic)))
		return fail(err, EBADMSG, "%s: not a trace.dat file", path);
	if ((start[sizeof(magic)] != '6' && start[sizeof(magic)] != '7') ||
	    start[sizeof(start) - 1])
		return fail(err, EBADMSG, "%s: trace.dat version '%.2s', not 6 or 7", path,
			    start + sizeof(magic));
	return 0;
}

/*
 * libtracecmd trusts the sizes and offsets in a file, so a damaged one may make it crash or run
 * forever. A child process opens the file and reads every page first, with the same calls. The
 * output of libtracecmd there becomes the error message.
 */
static void probe_child(const char *path, off_t size, int out, dat_read_all *read_all)
{
	/* Enough to inflate a compressed file; an endless loop exceeds it. */
	rlim_t seconds = 10 + (rlim_t)size / (16 << 20);
	struct rlimit cpu = {seconds, seconds}, core = {0, 0};
	struct error err;
	int ret;

	setrlimit(RLIMIT_CPU, &cpu);
	setrlimit(RLIMIT_CORE, &core);
	dup2(out, STDOUT_FILENO);
	dup2(out, STDERR_FILENO);
	for (int sig = 1; sig < NSIG; sig++) /* Python's signal handlers must not run here */
		signal(sig, SIG_DFL);
	alarm((unsigned)(10 * seconds));
	ret = read_all(path, &err);
	fflush(stdout);
	if (!ret && write(out, &(char){SURVIVED}, 1) != 1)
		_exit(1);
	_exit(0);
}

/* The last line that the child printed. */
static const char *last_line(char *text)
{
	size_t length = strlen(text);
	char *line;

	while (length && strchr("\n ", text[length - 1]))
		text[--length] = '\0';
	line = strrchr(text, '\n');
	return line ? line + 1 : text;
}

static int probe(const char *path, off_t size, dat_read_all *read_all, struct error *err)
{
	char said[400] = "";
	size_t length = 0;
	int pipes[2], status = 0;
	ssize_t n;
	pid_t pid;

	if (pipe2(pipes, O_CLOEXEC))
		return fail(err, errno, "%s: cannot make a pipe: %s", path, strerror(errno));
	pid = fork();
	if (pid < 0) {
		int code = errno;

		close(pipes[0]);
		close(pipes[1]);
		return fail(err, code, "%s: cannot fork: %s", path, strerror(code));
	}
	if (!pid)
		probe_child(path, size, pipes[1], read_all);
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
	if (WIFSIGNALED(status))
		return fail(err, EBADMSG, "%s: damaged (libtracecmd: %s)", path,
			    strsignal(WTERMSIG(status)));
	return fail(err, EBADMSG, "%s: damaged or truncated%s%s", path, length ? ": " : "",
		    last_line(said));
}

int dat_probe(const char *path, dat_read_all *read_all, struct error *err)
{
	off_t size = 0;
	int ret = check_start(path, &size, err);

	return ret ?: probe(path, size, read_all, err);
}

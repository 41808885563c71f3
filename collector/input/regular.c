// SPDX-License-Identifier: Apache-2.0
#include "regular.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int regular_open(const char *path, int flags, struct stat *out, struct error *err)
{
	/* Without O_NONBLOCK the open of a FIFO waits; for a regular file it changes nothing. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags), code;
	struct stat st;

	if (fd < 0 && errno == ELOOP && flags & O_NOFOLLOW)
		return fail(err, EINVAL, "%s: a link, not a regular file", path);
	if (fd < 0 || fstat(fd, &st)) {
		code = errno;
		if (fd >= 0)
			close(fd);
		return fail(err, code, "%s: %s", path, strerror(code));
	}
	if (!S_ISREG(st.st_mode)) {
		close(fd);
		return fail(err, EINVAL, "%s: not a regular file", path);
	}
	if (out)
		*out = st;
	return fd;
}

FILE *regular_stream(const char *path, off_t most, int *ret, struct error *err)
{
	struct stat st = {0};
	FILE *file;
	int fd = regular_open(path, O_NOFOLLOW, &st, err);

	*ret = fd < 0 ? fd : 0;
	if (fd < 0)
		return NULL;
	if (st.st_size > most) {
		close(fd);
		*ret = fail(err, EFBIG, "%s: %lld bytes, more than the %lld that pagetape reads",
			    path, (long long)st.st_size, (long long)most);
		return NULL;
	}
	file = fdopen(fd, "r");
	if (!file) {
		close(fd);
		*ret = fail(err, ENOMEM, "no memory to read %s", path);
	}
	return file;
}

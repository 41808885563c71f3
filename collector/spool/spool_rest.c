// SPDX-License-Identifier: Apache-2.0
#include "spool_rest.h"

#include "input/regular.h"
#include "ring/subbuf.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	BYTE_ORDER_MARK = 0x01020304,
	MAX_SLOT_BYTES = 64 << 20,
};

/*
 * Writing, in the guard.
 */

/* Bytes of one read: before 6.8 a page. */
static size_t subbuf_bytes(int instance)
{
	int fd = openat(instance, "buffer_subbuf_size_kb", O_RDONLY | O_CLOEXEC);
	char text[32] = "";

	if (fd >= 0) {
		(void)!read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	return strtoul(text, NULL, 10) * 1024 ?: (size_t)sysconf(_SC_PAGESIZE);
}

static bool write_all(int fd, const void *from, size_t bytes, off_t at)
{
	const char *next = from;

	while (bytes) {
		ssize_t nr = pwrite(fd, next, bytes, at);

		if (nr < 0 && errno == EINTR)
			continue;
		if (nr <= 0)
			return false;
		next += nr;
		at += nr;
		bytes -= (size_t)nr;
	}
	return true;
}

/* Move sub-buffers from the ring to the file, until the ring is empty or the disk is full. */
static void move(int ring, int file, void *slot, size_t bytes)
{
	off_t at = SPOOL_REST_HEADER;

	for (;;) {
		ssize_t nr;

		memset(slot, 0, bytes);
		nr = read(ring, slot, bytes);
		if (nr < 0 && errno == EINTR)
			continue;
		if (nr <= 0 || !(((struct subbuf *)slot)->commit & SUBBUF_BYTES))
			return;
		if (!write_all(file, slot, bytes, at))
			return;
		at += (off_t)bytes;
	}
}

static void store(int file, int ring, int instance, int cpu)
{
	struct spool_rest_header header = {
		.magic = SPOOL_REST_MAGIC,
		.byte_order = BYTE_ORDER_MARK,
		.long_bytes = sizeof(long),
		.slot_bytes = subbuf_bytes(instance),
	};
	void *slot = mmap(NULL, header.slot_bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (slot == MAP_FAILED)
		return;
	if (write_all(file, &header, sizeof(header), 0))
		move(ring, file, slot, header.slot_bytes);
	header.counted = !ring_stats_read(instance, cpu, &header.counts);
	write_all(file, &header, sizeof(header), 0);
	munmap(slot, header.slot_bytes);
}

void spool_rest_store(int spool, int instance, int cpu)
{
	char name[64];
	int file, ring;

	snprintf(name, sizeof(name), "per_cpu/cpu%d/trace_pipe_raw", cpu);
	ring = openat(instance, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	snprintf(name, sizeof(name), "cpu%d.rest", cpu);
	file = openat(spool, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (ring >= 0 && file >= 0)
		store(file, ring, instance, cpu);
	if (file >= 0)
		close(file);
	if (ring >= 0)
		close(ring);
}

/*
 * Reading.
 */

struct spool_rest {
	struct spool_rest_header header;
	int fd;
	uint64_t stored, next; /* sub-buffers */
	void *slot;
	char path[PATH_MAX];
};

/* Whole sub-buffers in a file of so many bytes: a full disk may cut the last one short. */
static uint64_t whole(off_t bytes, size_t slot_bytes)
{
	return bytes < SPOOL_REST_HEADER ? 0 : (uint64_t)(bytes - SPOOL_REST_HEADER) / slot_bytes;
}

static int check(struct spool_rest *rest, size_t slot_bytes, struct error *err)
{
	const struct spool_rest_header *h = &rest->header;
	struct stat st;

	if (fstat(rest->fd, &st))
		return fail(err, errno, "%s: %s", rest->path, strerror(errno));
	if (memcmp(h->magic, SPOOL_REST_MAGIC, sizeof(h->magic)) ||
	    h->byte_order != BYTE_ORDER_MARK || h->long_bytes != sizeof(long))
		return fail(err, EBADMSG, "%s: not the rest of a spool of this kind of machine",
			    rest->path);
	if (h->slot_bytes != slot_bytes || slot_bytes > MAX_SLOT_BYTES)
		return fail(err, EBADMSG, "%s: sub-buffers of %llu bytes, not %zu", rest->path,
			    (unsigned long long)h->slot_bytes, slot_bytes);
	rest->stored = whole(st.st_size, slot_bytes);
	return 0;
}

int spool_rest_open(struct spool_rest **out, const char *dir, int cpu, size_t slot_bytes,
		    struct error *err)
{
	struct spool_rest *rest = calloc(1, sizeof(*rest));
	ssize_t nr;
	int ret;

	*out = NULL;
	if (!rest)
		return fail(err, ENOMEM, "no memory to read a spool");
	rest->slot = malloc(slot_bytes);
	snprintf(rest->path, sizeof(rest->path), "%s/cpu%d.rest", dir, cpu);
	rest->fd = regular_open(rest->path, O_NOFOLLOW, NULL, err);
	ret = rest->fd < 0 && rest->fd != -ENOENT ? rest->fd : 0;
	if (!rest->slot)
		ret = fail(err, ENOMEM, "no memory to read a spool");
	nr = rest->fd < 0 ? 0 : pread(rest->fd, &rest->header, sizeof(rest->header), 0);
	/* None; or the guard was killed before it had stored anything. */
	if (ret || nr == 0) {
		spool_rest_free(rest);
		return ret;
	}
	ret = check(rest, slot_bytes, err);
	if (ret) {
		spool_rest_free(rest);
		return ret;
	}
	*out = rest;
	return 0;
}

void spool_rest_free(struct spool_rest *rest)
{
	if (!rest)
		return;
	if (rest->fd >= 0)
		close(rest->fd);
	free(rest->slot);
	free(rest);
}

int spool_rest_pop(struct spool_rest *rest, const void **subbuf, struct error *err)
{
	size_t bytes = rest->header.slot_bytes;
	ssize_t nr;

	if (rest->next == rest->stored)
		return 0;
	do
		nr = pread(rest->fd, rest->slot, bytes,
			   SPOOL_REST_HEADER + (off_t)(rest->next * bytes));
	while (nr < 0 && errno == EINTR);
	if (nr != (ssize_t)bytes)
		return fail(err, nr < 0 ? errno : EBADMSG, "%s: %s", rest->path,
			    nr < 0 ? strerror(errno) : "truncated");
	rest->next++;
	*subbuf = rest->slot;
	return 1;
}

uint64_t spool_rest_bytes(const char *dir, int cpu)
{
	char path[PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "%s/cpu%d.rest", dir, cpu);
	return stat(path, &st) ? 0 : whole(st.st_size, 1);
}

const struct ring_stats *spool_rest_counts(const struct spool_rest *rest)
{
	return rest && rest->header.counted ? &rest->header.counts : NULL;
}

// SPDX-License-Identifier: Apache-2.0
#include "spool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	PUNCH_SLOTS = 16,   /* give file space back this many slots at a time */
	BLOCK_BYTES = 4096, /* what O_DIRECT asks for on any common device */
};

/*
 * Order: everything in memory is older than everything in the file. So the
 * writer returns to memory only when the file was read to its end, and the
 * reader looks into memory first.
 *
 * The counts only grow. Memory slot of the n-th sub-buffer there: n % slots.
 * Place of the n-th in the file: n - file_base, where the writer moves
 * file_base, and cuts the file, each time it starts again with an empty one.
 */
struct spool {
	size_t slot_bytes, slots;
	char *memory; /* slots, then one to write the file from, one to read it to */
	int fd;
	const char *dir;
	uint64_t file_base;

	bool spilling; /* the writer's: the next one goes to the file */
	bool popped;   /* the reader's: it still uses slot memory_read */
	_Atomic uint64_t memory_written, memory_read;
	_Atomic uint64_t file_written, file_read;
};

static void *memory_slot(const struct spool *spool, uint64_t n)
{
	return spool->memory + n % spool->slots * spool->slot_bytes;
}

static void *write_slot(const struct spool *spool)
{
	return spool->memory + spool->slots * spool->slot_bytes;
}

static void *read_slot(const struct spool *spool)
{
	return spool->memory + (spool->slots + 1) * spool->slot_bytes;
}

static size_t memory_bytes(const struct spool *spool)
{
	return (spool->slots + 2) * spool->slot_bytes;
}

/* A file without a name, or -errno. */
static int open_file(const char *dir)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/spool.XXXXXX", dir);
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	unlink(path);
	return fd;
}

/*
 * O_DIRECT keeps the file out of the page cache, where it would need pages of
 * the allocator that is traced, and add to the very pressure that is watched.
 * Not every file system has it, and some want larger blocks: try one.
 */
static void bypass_page_cache(const struct spool *spool)
{
	if (fcntl(spool->fd, F_SETFL, O_DIRECT))
		return;
	if (pwrite(spool->fd, spool->memory, BLOCK_BYTES, 0) < 0 && errno == EINVAL)
		fcntl(spool->fd, F_SETFL, 0);
	/* If this fails, the writer writes over it. */
	(void)!ftruncate(spool->fd, 0);
}

int spool_new(struct spool **out, const char *dir, size_t slot_bytes, size_t slots,
	      struct error *err)
{
	struct spool *spool = calloc(1, sizeof(*spool));
	int ret;

	*out = NULL;
	if (!spool)
		return fail(err, ENOMEM, "no memory for a spool");
	*spool = (struct spool){.slot_bytes = slot_bytes, .slots = slots, .fd = -1, .dir = dir};
	spool->memory = mmap(NULL, memory_bytes(spool), PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (spool->memory == MAP_FAILED) {
		ret = fail(err, ENOMEM, "no memory for a spool of %zu bytes", memory_bytes(spool));
		free(spool);
		return ret;
	}
	spool->fd = open_file(dir);
	if (spool->fd < 0) {
		ret = fail(err, -spool->fd, "cannot make a spool file in %s: %s", dir,
			   strerror(-spool->fd));
		spool_free(spool);
		return ret;
	}
	bypass_page_cache(spool);
	*out = spool;
	return 0;
}

void spool_free(struct spool *spool)
{
	if (!spool)
		return;
	munmap(spool->memory, memory_bytes(spool));
	if (spool->fd >= 0)
		close(spool->fd);
	free(spool);
}

static bool memory_full(const struct spool *spool)
{
	return atomic_load_explicit(&spool->memory_written, memory_order_relaxed) -
		       atomic_load_explicit(&spool->memory_read, memory_order_acquire) ==
	       spool->slots;
}

/* Go back to memory if the file was read to its end and there is room. */
static void choose_side(struct spool *spool)
{
	uint64_t written = atomic_load_explicit(&spool->file_written, memory_order_relaxed);

	if (memory_full(spool)) {
		spool->spilling = true;
	} else if (spool->spilling &&
		   atomic_load_explicit(&spool->file_read, memory_order_acquire) == written) {
		if (ftruncate(spool->fd, 0) == 0) /* if not, the file just stays longer */
			spool->file_base = written;
		spool->spilling = false;
	}
}

static void *next_memory_slot(const struct spool *spool)
{
	return memory_slot(spool,
			   atomic_load_explicit(&spool->memory_written, memory_order_relaxed));
}

void *spool_slot(struct spool *spool)
{
	choose_side(spool);
	return spool->spilling ? write_slot(spool) : next_memory_slot(spool);
}

/* No space in the file; by now there may be some in memory. */
static bool move_to_memory(struct spool *spool)
{
	choose_side(spool);
	if (spool->spilling)
		return false;
	memcpy(next_memory_slot(spool), write_slot(spool), spool->slot_bytes);
	atomic_fetch_add_explicit(&spool->memory_written, 1, memory_order_release);
	return true;
}

int spool_push(struct spool *spool, size_t used, struct error *err)
{
	uint64_t n = atomic_load_explicit(&spool->file_written, memory_order_relaxed);
	const char *from = write_slot(spool);
	off_t at;

	if (!spool->spilling) {
		atomic_fetch_add_explicit(&spool->memory_written, 1, memory_order_release);
		return 0;
	}
	at = (off_t)((n - spool->file_base) * spool->slot_bytes);
	used = (used + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
	while (used) {
		ssize_t nr = pwrite(spool->fd, from, used, at);

		if (nr < 0 && errno == EINTR)
			continue;
		if (nr < 0 && errno == ENOSPC && move_to_memory(spool))
			return 0;
		if (nr < 0)
			return fail(err, errno, "cannot write the spool in %s: %s", spool->dir,
				    strerror(errno));
		from += nr;
		at += nr;
		used -= (size_t)nr;
	}
	atomic_store_explicit(&spool->file_written, n + 1, memory_order_release);
	return 0;
}

static int read_file(struct spool *spool, uint64_t n, struct error *err)
{
	off_t at = (off_t)((n - spool->file_base) * spool->slot_bytes);
	char *to = read_slot(spool);
	size_t room = spool->slot_bytes;

	while (room) {
		ssize_t nr = pread(spool->fd, to, room, at);

		if (nr < 0 && errno == EINTR)
			continue;
		if (nr < 0)
			return fail(err, errno, "cannot read the spool in %s: %s", spool->dir,
				    strerror(errno));
		if (nr == 0) /* the unused end of the last one was not written */
			break;
		to += nr;
		at += nr;
		room -= (size_t)nr;
	}
	return 0;
}

int spool_pop(struct spool *spool, const void **subbuf, struct error *err)
{
	uint64_t in_file, n;
	int ret;

	if (spool->popped)
		atomic_fetch_add_explicit(&spool->memory_read, 1, memory_order_release);
	spool->popped = false;

	/*
	 * Look at the file before memory: what is in the file by now is newer
	 * than all that memory can show, so an empty memory proves its turn.
	 */
	in_file = atomic_load_explicit(&spool->file_written, memory_order_acquire);
	n = atomic_load_explicit(&spool->memory_read, memory_order_relaxed);
	if (n != atomic_load_explicit(&spool->memory_written, memory_order_acquire)) {
		*subbuf = memory_slot(spool, n);
		spool->popped = true;
		return 1;
	}
	n = atomic_load_explicit(&spool->file_read, memory_order_relaxed);
	if (n == in_file)
		return 0;
	ret = read_file(spool, n, err);
	if (ret)
		return ret;
	*subbuf = read_slot(spool);
	if ((n + 1 - spool->file_base) % PUNCH_SLOTS == 0)
		fallocate(spool->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			  (off_t)((n + 1 - spool->file_base - PUNCH_SLOTS) * spool->slot_bytes),
			  (off_t)(PUNCH_SLOTS * spool->slot_bytes));
	atomic_store_explicit(&spool->file_read, n + 1, memory_order_release);
	return 1;
}

void spool_progress(const struct spool *spool, uint64_t *written, uint64_t *read)
{
	*read = atomic_load_explicit(&spool->memory_read, memory_order_acquire) +
		atomic_load_explicit(&spool->file_read, memory_order_acquire);
	*written = atomic_load_explicit(&spool->memory_written, memory_order_acquire) +
		   atomic_load_explicit(&spool->file_written, memory_order_acquire);
}

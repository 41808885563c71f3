// SPDX-License-Identifier: Apache-2.0
/*
 * The way from a spool's memory to its file.
 */
#include "spool_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
	PUNCH_SLOTS = 16, /* slots per release of file space */

	/*
	 * A write goes on behind a sub-buffer only if that is at least this full. Sub-buffers that
	 * were taken early, because little happens, would be written with their empty ends.
	 */
	FULL_PERCENT = 75,
};

bool spool_should_store(const struct spool *spool)
{
	const struct spool_header *h = spool->header;
	uint64_t filled = get(&h->filled), first = memory_first(h), read = get(&spool->read);

	if (filled - first > spool->slots / 4 * 3)
		return true;
	return filled - (read > first ? read : first) > spool->slots / 4;
}

/* Bytes that the file takes on the disk. */
static uint64_t file_bytes(const struct spool *spool)
{
	return (get(&spool->header->stored) - spool->punched) * spool->slot_bytes;
}

static void return_budget(struct spool_budget *budget, uint64_t bytes)
{
	atomic_fetch_sub(&budget->used, bytes);
}

/* Everything in the file was released: begin at its start again, with the oldest in memory. */
static void restart_file(struct spool *spool, uint64_t released)
{
	struct spool_header *h = spool->header;
	uint64_t bytes = file_bytes(spool);

	if (bytes) {
		return_budget(spool->budget, bytes);
		(void)!ftruncate(spool->fd, 0); /* if this fails, the file just stays longer */
	}
	/* In this order: a killed recorder's file has what is between `released` and `stored`. */
	set(&h->stored, released);
	h->file_base = spool->punched = released;
}

/*
 * Free the file space of released sub-buffers. That takes a while, so it waits for a moment without
 * anything to write, unless there is no space.
 */
static void punch(struct spool *spool, uint64_t released)
{
	const struct spool_header *h = spool->header;

	if (released - spool->punched < PUNCH_SLOTS)
		return;
	while (spool->punched < released) {
		uint64_t at = file_slot(h, spool->punched), nr = released - spool->punched;

		if (nr > h->file_slots - at)
			nr = h->file_slots - at;
		fallocate(spool->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			  (off_t)(at * spool->slot_bytes), (off_t)(nr * spool->slot_bytes));
		spool->punched += nr;
		return_budget(spool->budget, nr * spool->slot_bytes);
	}
}

static bool take_budget(struct spool_budget *budget, uint64_t bytes)
{
	if (atomic_fetch_add(&budget->used, bytes) + bytes <= budget->max || !budget->max)
		return true;
	return_budget(budget, bytes);
	return false;
}

/* How many sub-buffers from n on one write takes; *bytes without the empty end of the last. */
static uint64_t run_length(const struct spool *spool, uint64_t n, size_t *bytes)
{
	const struct spool_header *h = spool->header;
	uint64_t most = get(&h->filled) - n, room = h->file_slots - file_slot(h, n), nr = 0;
	size_t used;

	if (most > spool->batch)
		most = spool->batch;
	if (most > room)
		most = room;
	do {
		used = spool_used_bytes(spool, memory_slot(spool, n + nr++));
	} while (nr < most && used * 100 >= spool->slot_bytes * FULL_PERCENT);
	*bytes =
		(nr - 1) * spool->slot_bytes + (used + SPOOL_BLOCK - 1) / SPOOL_BLOCK * SPOOL_BLOCK;
	return nr;
}

static int write_run(const struct spool *spool, uint64_t n, size_t bytes)
{
	size_t to_end = (spool->slots - n % spool->slots) * spool->slot_bytes;
	off_t at = (off_t)(file_slot(spool->header, n) * spool->slot_bytes);
	const struct iovec parts[2] = {
		{memory_slot(spool, n), bytes < to_end ? bytes : to_end},
		{memory_slot(spool, 0), bytes < to_end ? 0 : bytes - to_end},
	};
	int nr_parts = parts[1].iov_len ? 2 : 1;
	ssize_t nr;

	do {
		nr = spool->write(spool->fd, parts, nr_parts, at);
	} while (nr < 0 && errno == EINTR);
	/* Some file systems and devices ask for larger blocks than ours with O_DIRECT. */
	if (nr < 0 && errno == EINVAL && fcntl(spool->fd, F_SETFL, 0) == 0)
		nr = spool->write(spool->fd, parts, nr_parts, at);
	if (nr < 0)
		return -errno;
	return (size_t)nr < bytes ? -ENOSPC : 0; /* the next try writes all of it again */
}

static int store_some(struct spool *spool)
{
	struct spool_header *h = spool->header;
	uint64_t n = get(&h->stored), nr;
	size_t bytes;
	int ret;

	nr = run_length(spool, n, &bytes);
	if (n + nr - spool->punched > h->file_slots ||
	    !take_budget(spool->budget, nr * spool->slot_bytes))
		return -EDQUOT;
	ret = write_run(spool, n, bytes);
	if (ret) {
		return_budget(spool->budget, nr * spool->slot_bytes);
		return ret;
	}
	set(&h->stored, n + nr);
	return 1;
}

int spool_store(struct spool *spool, struct error *err)
{
	uint64_t released = get(&spool->header->released);
	int ret = 0;

	if (released >= get(&spool->header->stored))
		restart_file(spool, released);
	else if (!spool_should_store(spool))
		punch(spool, released);
	if (spool_should_store(spool))
		ret = store_some(spool);
	if (ret == -EDQUOT || ret == -ENOSPC)
		punch(spool, released);
	atomic_store(&spool->problem, ret < 0 ? ret : 0);
	if (ret == -EDQUOT)
		return fail(err, EDQUOT, "the spool in %s is full", spool->dir);
	if (ret < 0)
		return fail(err, -ret, "cannot write the spool in %s: %s", spool->dir,
			    strerror(-ret));
	return ret;
}

int spool_problem(const struct spool *spool)
{
	return atomic_load(&spool->problem);
}

void spool_add_use(const struct spool *spool, struct spool_use *use)
{
	const struct spool_header *h = spool->header;
	uint64_t filled = get(&h->filled), stored = get(&h->stored), released = get(&h->released);

	use->memory += (filled - memory_first(h)) * spool->slot_bytes;
	use->memory_size += spool->slots * spool->slot_bytes;
	use->file += stored > released ? (stored - released) * spool->slot_bytes : 0;
}

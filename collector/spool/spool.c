// SPDX-License-Identifier: Apache-2.0
#include "spool_internal.h"
#include "ring/subbuf.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static const uint64_t max_file_bytes = 1ull << 40; /* below the limit of every file system */

/*
 * Files.
 */

static int make_file(const struct spool_config *config, const char *more, struct error *err)
{
	char path[PATH_MAX];
	int fd;

	spool_file_name(path, config->dir, config->cpu, more);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return fail(err, errno, "cannot make a spool file in %s: %s", config->dir,
			    strerror(errno));
	if (!config->keep)
		unlink(path);
	return fd;
}

/* Reserve the space now: on a full disk, writing to a shared mapping raises SIGBUS. */
static int map_memory(struct spool *spool, int fd, struct error *err)
{
	size_t bytes = HEADER_BYTES + spool->slots * spool->slot_bytes;
	void *memory;
	int ret;

	while ((ret = posix_fallocate(fd, 0, (off_t)bytes)) == EINTR)
		;
	if (ret)
		return fail(err, ret, "cannot reserve a spool of %zu MB in %s: %s",
			    (bytes >> 20) + 1, spool->dir, strerror(ret));
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return fail(err, errno, "no memory for a spool of %zu bytes", bytes);
	spool->header = memory;
	spool->map_bytes = bytes;
	/* Kernels before 5.14 do not know it, and some file systems refuse it. */
	if (madvise(memory, bytes, MADV_POPULATE_WRITE))
		for (size_t at = 0; at < bytes; at += SPOOL_BLOCK)
			((volatile char *)memory)[at] = 0;
	/* Under pressure the kernel would take these pages. Not every user may lock memory. */
	mlock(memory, bytes);
	return 0;
}

static int new_memory(struct spool *spool, const struct spool_config *config, struct error *err)
{
	int fd = make_file(config, "", err), ret;

	if (fd < 0)
		return fd;
	ret = map_memory(spool, fd, err);
	close(fd);
	if (ret)
		return ret;
	*spool->header = (struct spool_header){
		.start =
			{
				.byte_order = BYTE_ORDER_MARK,
				.version = VERSION,
				.long_bytes = sizeof(long),
				.cpu = (uint32_t)config->cpu,
				.slot_bytes = config->slot_bytes,
				.slots = config->slots,
			},
		.file_slots = max_file_bytes / config->slot_bytes,
	};
	memcpy(spool->header->start.magic, SPOOL_MAGIC, sizeof(spool->header->start.magic));
	return 0;
}

int spool_new(struct spool **out, const struct spool_config *config, struct error *err)
{
	struct spool *spool;
	int ret = spool_new_shell(&spool, config->dir, config->slot_bytes, config->slots, err);

	*out = NULL;
	if (!ret) {
		spool->budget = config->budget;
		spool->keep = config->keep;
		spool->write = config->write ? config->write : pwritev;
		ret = new_memory(spool, config, err);
	}
	if (!ret) {
		spool->fd = make_file(config, ".more", err);
		ret = spool->fd < 0 ? spool->fd : 0;
	}
	if (ret) {
		spool_free(spool);
		return ret;
	}
	/*
	 * O_DIRECT avoids the page cache, which would need pages of the traced allocator and add to
	 * the recorded pressure. Not every file system has it.
	 */
	fcntl(spool->fd, F_SETFL, O_DIRECT);
	*out = spool;
	return 0;
}

/*
 * Filling.
 */

void *spool_slot(struct spool *spool)
{
	struct spool_header *h = spool->header;
	uint64_t n = get(&h->filled);
	struct subbuf *slot;

	if (n - memory_first(h) >= spool->slots)
		return NULL;
	slot = (struct subbuf *)memory_slot(spool, n);
	slot->commit = 0;
	set(&h->taking, n + 1);
	return slot;
}

void spool_push(struct spool *spool)
{
	struct spool_header *h = spool->header;
	uint64_t filled = get(&h->filled) + 1;
	uint64_t waiting = (filled - get(&h->released)) * spool->slot_bytes;

	set(&h->filled, filled);
	if (waiting > h->load.peak_bytes)
		h->load.peak_bytes = waiting;
}

void spool_waited(struct spool *spool, uint64_t ns)
{
	spool->header->load.full_ns += ns;
}

/*
 * Reading.
 */

size_t spool_used_bytes(const struct spool *spool, const void *subbuf)
{
	unsigned long commit = ((const struct subbuf *)subbuf)->commit;
	size_t used = sizeof(struct subbuf) + (commit & SUBBUF_BYTES);

	if (commit & SUBBUF_STORED)
		used += sizeof(long);
	return used < spool->slot_bytes ? used : spool->slot_bytes;
}

uint64_t spool_place(const struct spool *spool, bool next)
{
	return get(&spool->read) + (next && spool->popped);
}

/* Number n, which is stored, and those behind it, in one read. */
static int read_stored(struct spool *spool, uint64_t n, struct error *err)
{
	const struct spool_header *h = spool->header;
	uint64_t at = file_slot(h, n), nr = get(&h->stored) - n;
	int ret;

	if (nr > spool->batch)
		nr = spool->batch;
	if (nr > h->file_slots - at)
		nr = h->file_slots - at;
	spool->buffered = spool->buffered_end = n;
	ret = spool_read_file(spool, at, nr, err);
	if (!ret)
		spool->buffered_end = n + nr;
	return ret;
}

/*
 * Copy number n out of memory, so that the storing thread never waits for the decoder. Returns
 * whether it was there to the end; if not, it is in the file by now.
 */
static bool copy_filled(struct spool *spool, uint64_t n)
{
	const struct spool_header *h = spool->header;
	const char *slot = memory_slot(spool, n);

	if (n < get(&h->stored))
		return false;
	memcpy(spool->buffer, slot, spool_used_bytes(spool, slot));
	atomic_thread_fence(memory_order_acquire);
	if (n < get(&h->stored))
		return false;
	spool->buffered = n;
	spool->buffered_end = n + 1;
	return true;
}

static int pop_live(struct spool *spool, uint64_t n, const void **subbuf, struct error *err)
{
	if (n == get(&spool->header->filled))
		return 0;
	if ((n < spool->buffered || n >= spool->buffered_end) && !copy_filled(spool, n)) {
		int ret = read_stored(spool, n, err);

		if (ret)
			return ret;
	}
	*subbuf = spool->buffer + (n - spool->buffered) * spool->slot_bytes;
	return 1;
}

int spool_pop(struct spool *spool, const void **subbuf, struct error *err)
{
	uint64_t n = spool_place(spool, true);
	int ret;

	set(&spool->read, n);
	spool->popped = false;
	if (!spool->keep && !spool->past)
		spool_release(spool, n);
	ret = spool->past ? spool_pop_past(spool, subbuf, err) : pop_live(spool, n, subbuf, err);
	spool->popped = ret == 1;
	return ret;
}

void spool_on_disk_read(struct spool *spool, void (*disk)(void *context, bool begin), void *context)
{
	spool->disk = disk;
	spool->disk_context = context;
}

void spool_release(struct spool *spool, uint64_t place)
{
	set(&spool->header->released, place);
}

void spool_progress(const struct spool *spool, uint64_t *in, uint64_t *out)
{
	*out = get(&spool->read);
	*in = spool->past ? spool->end : get(&spool->header->filled);
}

struct spool_load spool_load(const struct spool *spool)
{
	return spool->past ? spool->load : spool->header->load;
}

size_t spool_slot_bytes(const struct spool *spool)
{
	return spool->slot_bytes;
}

size_t spool_slots(const struct spool *spool)
{
	return spool->slots;
}

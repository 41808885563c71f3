// SPDX-License-Identifier: Apache-2.0
#include "spool_internal.h"
#include "subbuf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PUNCH_SLOTS = 16 }; /* slots per release of file space */

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

/*
 * O_DIRECT avoids the page cache, which would need pages of the traced allocator and add to
 * the recorded pressure. Not every file system supports it, and some need larger blocks:
 * try one.
 */
static void bypass_page_cache(const struct spool *spool)
{
	if (fcntl(spool->fd, F_SETFL, O_DIRECT))
		return;
	if (pwrite(spool->fd, staging_slot(spool), SPOOL_BLOCK, 0) < 0 && errno == EINVAL)
		fcntl(spool->fd, F_SETFL, 0);
	/* If this fails, the writer overwrites the old contents. */
	(void)!ftruncate(spool->fd, 0);
}

/* Reserve the space now: on a full disk, writing to a shared mapping raises SIGBUS. */
static int map_memory(struct spool *spool, int fd, struct error *err)
{
	void *memory;
	int ret;

	while ((ret = posix_fallocate(fd, 0, (off_t)map_bytes(spool))) == EINTR)
		;
	if (ret)
		return fail(err, ret, "cannot reserve a spool of %zu MB in %s: %s",
			    (map_bytes(spool) >> 20) + 1, spool->dir, strerror(ret));
	memory = mmap(NULL, map_bytes(spool), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return fail(err, errno, "no memory for a spool of %zu bytes", map_bytes(spool));
	spool->header = memory;
	for (size_t at = 0; at < map_bytes(spool); at += SPOOL_BLOCK)
		((volatile char *)memory)[at] = 0;
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
		.byte_order = BYTE_ORDER_MARK,
		.version = VERSION,
		.long_bytes = sizeof(long),
		.cpu = (uint32_t)config->cpu,
		.slot_bytes = config->slot_bytes,
		.slots = config->slots,
	};
	memcpy(spool->header->magic, SPOOL_MAGIC, sizeof(spool->header->magic));
	return 0;
}

int spool_new_shell(struct spool **out, const char *dir, size_t slot_bytes, size_t slots,
		    struct error *err)
{
	struct spool *spool = calloc(1, sizeof(*spool));

	*out = spool;
	if (!spool)
		return fail(err, ENOMEM, "no memory for a spool");
	*spool = (struct spool){.slot_bytes = slot_bytes, .slots = slots, .fd = -1};
	spool->dir = strdup(dir);
	spool->read_slot = mmap(NULL, slot_bytes, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (!spool->dir || spool->read_slot == MAP_FAILED)
		return fail(err, ENOMEM, "no memory for a spool");
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
	bypass_page_cache(spool);
	*out = spool;
	return 0;
}

void spool_free(struct spool *spool)
{
	if (!spool)
		return;
	if (spool->header)
		munmap(spool->header, map_bytes(spool));
	if (spool->read_slot && spool->read_slot != MAP_FAILED)
		munmap(spool->read_slot, spool->slot_bytes);
	if (spool->fd >= 0)
		close(spool->fd);
	free(spool->dir);
	free(spool);
}

/*
 * Writing.
 */

/* Return to memory if the file was released to its end and memory has room. */
static void choose_side(struct spool *spool)
{
	struct spool_header *h = spool->header;
	uint64_t written = get(&h->file_written);

	if (memory_full(h)) {
		h->spilling = true;
	} else if (h->spilling && get(&h->file_released) == written) {
		if (ftruncate(spool->fd, 0) == 0) /* if not, the file just stays longer */
			h->file_base = written;
		h->spilling = false;
	}
}

void *spool_slot(struct spool *spool)
{
	struct spool_header *h = spool->header;
	struct subbuf *slot;

	choose_side(spool);
	slot = h->spilling ? staging_slot(spool) : next_memory_slot(spool);
	slot->commit = 0;
	set(&h->taking, written(h) + 1);
	return slot;
}

static void count_one(struct spool_header *h, _Atomic uint64_t *count)
{
	uint64_t waiting;

	set(count, get(count) + 1);
	waiting = written(h) - get(&h->memory_released) - get(&h->file_released);
	if (waiting * h->slot_bytes > h->load.peak_bytes)
		h->load.peak_bytes = waiting * h->slot_bytes;
}

/* The file has no space; memory may have room by now. */
static bool move_to_memory(struct spool *spool)
{
	choose_side(spool);
	if (spool->header->spilling)
		return false;
	memcpy(next_memory_slot(spool), staging_slot(spool), spool->slot_bytes);
	count_one(spool->header, &spool->header->memory_written);
	return true;
}

static bool take_budget(struct spool_budget *budget, uint64_t bytes)
{
	if (!budget->max || atomic_fetch_add(&budget->used, bytes) + bytes <= budget->max)
		return true;
	atomic_fetch_sub(&budget->used, bytes);
	return false;
}

static void return_budget(struct spool_budget *budget, uint64_t bytes)
{
	if (budget->max)
		atomic_fetch_sub(&budget->used, bytes);
}

static int write_file(const struct spool *spool, size_t used)
{
	const struct spool_header *h = spool->header;
	off_t at = (off_t)((get(&h->file_written) - h->file_base) * spool->slot_bytes);
	const char *from = staging_slot(spool);

	used = (used + SPOOL_BLOCK - 1) / SPOOL_BLOCK * SPOOL_BLOCK;
	while (used) {
		ssize_t nr = pwrite(spool->fd, from, used, at);

		if (nr < 0 && errno == EINTR)
			continue;
		if (nr < 0)
			return -errno;
		from += nr;
		at += nr;
		used -= (size_t)nr;
	}
	return 0;
}

int spool_push(struct spool *spool, size_t used, struct error *err)
{
	struct spool_header *h = spool->header;
	int ret;

	if (!h->spilling) {
		count_one(h, &h->memory_written);
		return 0;
	}
	if (take_budget(spool->budget, spool->slot_bytes)) {
		ret = write_file(spool, used);
		if (!ret) {
			count_one(h, &h->file_written);
			return 0;
		}
		return_budget(spool->budget, spool->slot_bytes);
	} else {
		ret = -EDQUOT;
	}
	if ((ret == -ENOSPC || ret == -EDQUOT) && move_to_memory(spool))
		return 0;
	if (ret == -EDQUOT)
		return fail(err, EDQUOT, "the spool in %s is full", spool->dir);
	return fail(err, -ret, "cannot write the spool in %s: %s", spool->dir, strerror(-ret));
}

void spool_waited(struct spool *spool, uint64_t ns)
{
	spool->header->load.full_ns += ns;
}

/*
 * Reading.
 */

static int read_file(const struct spool *spool, uint64_t n, struct error *err)
{
	off_t at = (off_t)((n - spool->header->file_base) * spool->slot_bytes);
	char *to = spool->read_slot;
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

struct spool_place spool_place(const struct spool *spool, bool next)
{
	struct spool_place place = {get(&spool->memory_read), get(&spool->file_read)};

	place.memory += next && spool->popped == MEMORY;
	place.file += next && spool->popped == OVERFLOW;
	return place;
}

int spool_pop(struct spool *spool, const void **subbuf, struct error *err)
{
	const struct spool_header *h = spool->header;
	struct spool_place place = spool_place(spool, true);
	uint64_t in_file;
	int ret;

	set(&spool->memory_read, place.memory);
	set(&spool->file_read, place.file);
	spool->staged = spool->staged && spool->popped != STAGING;
	spool->popped = NOWHERE;
	if (!spool->keep)
		spool_release(spool, place);

	/*
	 * Read the file's count before the count of memory: sub-buffers in the file are newer than
	 * all in memory, so if memory is empty the file is next.
	 */
	in_file = get(&h->file_written);
	if (place.memory != get(&h->memory_written)) {
		*subbuf = memory_slot(spool, place.memory);
		spool->popped = MEMORY;
		return 1;
	}
	if (place.file != in_file) {
		ret = read_file(spool, place.file, err);
		*subbuf = spool->read_slot;
		spool->popped = ret ? NOWHERE : OVERFLOW;
		return ret ? ret : 1;
	}
	if (spool->staged) {
		*subbuf = staging_slot(spool);
		spool->popped = STAGING;
		return 1;
	}
	return 0;
}

void spool_release(struct spool *spool, struct spool_place place)
{
	struct spool_header *h = spool->header;
	uint64_t released = get(&h->file_released);

	if (place.file - spool->punched >= PUNCH_SLOTS) {
		if (spool->punched < h->file_base)
			spool->punched = h->file_base;
		fallocate(spool->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			  (off_t)((spool->punched - h->file_base) * spool->slot_bytes),
			  (off_t)((place.file - spool->punched) * spool->slot_bytes));
		spool->punched = place.file;
	}
	return_budget(spool->budget, (place.file - released) * spool->slot_bytes);
	set(&h->memory_released, place.memory);
	set(&h->file_released, place.file);
}

void spool_progress(const struct spool *spool, uint64_t *in, uint64_t *out)
{
	*out = get(&spool->memory_read) + get(&spool->file_read);
	*in = written(spool->header);
}

struct spool_load spool_load(const struct spool *spool)
{
	return spool->header->load;
}

size_t spool_slot_bytes(const struct spool *spool)
{
	return spool->slot_bytes;
}

size_t spool_slots(const struct spool *spool)
{
	return spool->slots;
}

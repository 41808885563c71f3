// SPDX-License-Identifier: Apache-2.0
#include "spool.h"

#include "subbuf.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	PUNCH_SLOTS = 16,   /* give file space back this many slots at a time */
	BLOCK_BYTES = 4096, /* what O_DIRECT asks for on any common device */
	HEADER_BYTES = 4096,
	MAX_SLOT_BYTES = 64 << 20,
	VERSION = 1,
	BYTE_ORDER_MARK = 0x01020304,
};

static const char magic[8] = "ptspool";

/*
 * Order: everything in memory is older than everything in the file. So the writer
 * returns to memory only when the file was released to its end, and the reader looks
 * into memory first.
 *
 * The counts only grow. Each group of them is one thread's, in a cache line of its own.
 */
struct spool_header {
	char magic[sizeof(magic)];
	uint32_t byte_order, version, long_bytes, cpu;
	uint64_t slot_bytes, slots;
	char ended[64]; /* how; empty while it runs, and of a killed recorder */
	struct ring_stats counts;

	_Alignas(64) _Atomic uint64_t memory_written;
	_Atomic uint64_t file_written;
	/* The writer moves file_base, and cuts the file, when it starts again with an empty one. */
	uint64_t file_base;
	/*
	 * The sub-buffer that the writer is about to take out of the ring is the taking-th
	 * of all; its commit word is 0 until it is there. So one that was taken but not yet
	 * counted when the recorder was killed can be told from old contents.
	 */
	_Atomic uint64_t taking;
	uint32_t spilling; /* it goes to the file */
	struct spool_load load;

	_Alignas(64) _Atomic uint64_t memory_released;
	_Atomic uint64_t file_released;
};

_Static_assert(sizeof(struct spool_header) <= HEADER_BYTES, "the header is a page");

struct spool {
	struct spool_header *header; /* the mapping: header, slots, staging slot */
	size_t slot_bytes, slots;
	char *read_slot; /* for what comes out of the file */
	int fd;          /* of the overflow; -1 if there is none */
	char *dir;
	struct spool_budget *budget;
	bool keep;
	bool staged; /* a killed recorder's last one is in the staging slot */

	enum { NOWHERE, MEMORY, OVERFLOW, STAGING } popped; /* where the reader's current one is */
	_Atomic uint64_t memory_read, file_read;
	uint64_t punched; /* the releaser's */
};

static void *memory_slot(const struct spool *spool, uint64_t n)
{
	return (char *)spool->header + HEADER_BYTES + n % spool->slots * spool->slot_bytes;
}

/* Behind the others. */
static void *staging_slot(const struct spool *spool)
{
	return (char *)spool->header + HEADER_BYTES + spool->slots * spool->slot_bytes;
}

static size_t map_bytes(const struct spool *spool)
{
	return HEADER_BYTES + (spool->slots + 1) * spool->slot_bytes;
}

static uint64_t get(const _Atomic uint64_t *count)
{
	return atomic_load_explicit(count, memory_order_acquire);
}

static void set(_Atomic uint64_t *count, uint64_t value)
{
	atomic_store_explicit(count, value, memory_order_release);
}

/*
 * Files.
 */

static void name_file(char path[PATH_MAX], const char *dir, int cpu, const char *more)
{
	snprintf(path, PATH_MAX, "%s/cpu%d%s", dir, cpu, more);
}

static int make_file(const struct spool_config *config, const char *more, struct error *err)
{
	char path[PATH_MAX];
	int fd;

	name_file(path, config->dir, config->cpu, more);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return fail(err, errno, "cannot make a spool file in %s: %s", config->dir,
			    strerror(errno));
	if (!config->keep)
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
	if (pwrite(spool->fd, staging_slot(spool), BLOCK_BYTES, 0) < 0 && errno == EINVAL)
		fcntl(spool->fd, F_SETFL, 0);
	/* If this fails, the writer writes over it. */
	(void)!ftruncate(spool->fd, 0);
}

/* The space is reserved now: a shared mapping that finds the disk full later is a SIGBUS. */
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
	for (size_t at = 0; at < map_bytes(spool); at += BLOCK_BYTES)
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
	memcpy(spool->header->magic, magic, sizeof(magic));
	return 0;
}

/* Without its mapping and its overflow. */
static int new_shell(struct spool **out, const char *dir, size_t slot_bytes, size_t slots,
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
	int ret = new_shell(&spool, config->dir, config->slot_bytes, config->slots, err);

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

static bool memory_full(const struct spool_header *h)
{
	return get(&h->memory_written) - get(&h->memory_released) == h->slots;
}

/* Go back to memory if the file was released to its end and there is room. */
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

static void *next_memory_slot(const struct spool *spool)
{
	return memory_slot(spool, get(&spool->header->memory_written));
}

static uint64_t written(const struct spool_header *h)
{
	return get(&h->memory_written) + get(&h->file_written);
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

/* No space in the file; by now there may be some in memory. */
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

	used = (used + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
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
	 * Look at the file before memory: what is in the file by now is newer
	 * than all that memory can show, so an empty memory proves its turn.
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

/*
 * The past.
 */

void spool_end(struct spool *spool, const char *how, const struct ring_stats *counts)
{
	struct spool_header *h = spool->header;

	h->counts = *counts;
	snprintf(h->ended, sizeof(h->ended), "%s", how);
}

struct spool_past spool_past(const struct spool *spool)
{
	return (struct spool_past){spool->header->ended, spool->header->counts};
}

static int check_header(const struct spool_header *h, const char *path, struct error *err)
{
	if (memcmp(h->magic, magic, sizeof(magic)))
		return fail(err, EBADMSG, "%s: not a spool", path);
	if (h->byte_order != BYTE_ORDER_MARK)
		return fail(err, EBADMSG, "%s: from a machine with the other byte order", path);
	if (h->version != VERSION)
		return fail(err, EBADMSG, "%s: a spool of version %u, not %d", path, h->version,
			    VERSION);
	if (h->long_bytes != sizeof(long))
		return fail(err, EBADMSG, "%s: from a machine with words of %u bytes, not %zu",
			    path, h->long_bytes, sizeof(long));
	if (!h->slot_bytes || h->slot_bytes % BLOCK_BYTES || h->slot_bytes > MAX_SLOT_BYTES ||
	    !h->slots || h->slots > UINT32_MAX || !memchr(h->ended, '\0', sizeof(h->ended)))
		return fail(err, EBADMSG, "%s: damaged: %llu slots of %llu bytes", path,
			    (unsigned long long)h->slots, (unsigned long long)h->slot_bytes);
	return 0;
}

/* The counts of a spool whose recorder has gone agree with each other and with the files. */
static int check_counts(const struct spool *spool, off_t bytes, const char *path, struct error *err)
{
	const struct spool_header *h = spool->header;
	uint64_t in_memory = get(&h->memory_written) - get(&h->memory_released);
	uint64_t in_file = get(&h->file_written) - get(&h->file_released);
	uint64_t last = get(&h->file_written) - h->file_base;

	if (in_memory > h->slots || get(&h->file_written) < get(&h->file_released))
		return fail(err, EBADMSG, "%s: damaged: %llu sub-buffers in %llu slots", path,
			    (unsigned long long)in_memory, (unsigned long long)h->slots);
	/* The last may be short, and the one before it ends in time. */
	if (in_file && (get(&h->file_released) < h->file_base ||
			(last - 1) * h->slot_bytes >= (uint64_t)bytes))
		return fail(err, EBADMSG, "%s.more: truncated", path);
	return 0;
}

/* Count the sub-buffer that the writer had taken but not yet counted, if there is one. */
static void find_last(struct spool *spool)
{
	struct spool_header *h = spool->header;
	const struct subbuf *slot;

	if (get(&h->taking) != written(h) + 1)
		return;
	slot = h->spilling ? staging_slot(spool) : next_memory_slot(spool);
	if (!(slot->commit & SUBBUF_BYTES))
		return;
	if (h->spilling)
		spool->staged = true;
	else if (!memory_full(h))
		set(&h->memory_written, get(&h->memory_written) + 1);
}

static int open_overflow(struct spool *spool, int cpu, off_t *bytes, struct error *err)
{
	char path[PATH_MAX];
	struct stat st;

	name_file(path, spool->dir, cpu, ".more");
	spool->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (spool->fd < 0 || fstat(spool->fd, &st))
		return fail(err, errno, "%s: %s", path, strerror(errno));
	*bytes = st.st_size;
	return 0;
}

/* `map_bytes` of the file, for us alone: what is corrected here stays here. */
static int map_past(struct spool *spool, int fd, const char *path, struct error *err)
{
	struct stat st;
	void *memory;

	if (fstat(fd, &st))
		return fail(err, errno, "%s: %s", path, strerror(errno));
	if ((uint64_t)st.st_size < map_bytes(spool))
		return fail(err, EBADMSG, "%s: truncated", path);
	memory = mmap(NULL, map_bytes(spool), PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (memory == MAP_FAILED)
		return fail(err, errno, "%s: %s", path, strerror(errno));
	spool->header = memory;
	return 0;
}

static int read_header(struct spool_header *h, int fd, const char *path, struct error *err)
{
	ssize_t nr = pread(fd, h, sizeof(*h), 0);

	if (nr < 0)
		return fail(err, errno, "%s: %s", path, strerror(errno));
	if (nr < (ssize_t)sizeof(*h))
		return fail(err, EBADMSG, "%s: not a spool", path);
	return check_header(h, path, err);
}

static int open_past(struct spool **out, int fd, const char *path, const char *dir, int cpu,
		     struct error *err)
{
	struct spool_header h;
	off_t bytes = 0;
	int ret;

	*out = NULL;
	ret = read_header(&h, fd, path, err);
	ret = ret ?: new_shell(out, dir, h.slot_bytes, h.slots, err);
	ret = ret ?: map_past(*out, fd, path, err);
	ret = ret ?: open_overflow(*out, cpu, &bytes, err);
	ret = ret ?: check_counts(*out, bytes, path, err);
	if (ret)
		return ret;
	(*out)->keep = true;
	find_last(*out);
	set(&(*out)->memory_read, get(&h.memory_released));
	set(&(*out)->file_read, get(&h.file_released));
	return 0;
}

int spool_open(struct spool **out, const char *dir, int cpu, struct error *err)
{
	char path[PATH_MAX];
	int fd, ret;

	*out = NULL;
	name_file(path, dir, cpu, "");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fail(err, errno, "%s: %s", path, strerror(errno));
	ret = open_past(out, fd, path, dir, cpu, err);
	close(fd);
	if (ret) {
		spool_free(*out);
		*out = NULL;
	}
	return ret;
}

int spool_look(const char *dir, int cpu, struct spool_state *out, struct error *err)
{
	struct spool_header h;
	char path[PATH_MAX];
	int fd, ret;

	name_file(path, dir, cpu, "");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fail(err, errno, "%s: %s", path, strerror(errno));
	ret = read_header(&h, fd, path, err);
	close(fd);
	if (ret)
		return ret;
	out->waiting = written(&h) - get(&h.memory_released) - get(&h.file_released);
	out->waiting *= h.slot_bytes;
	memcpy(out->ended, h.ended, sizeof(out->ended));
	return 0;
}

int spool_seek(struct spool *spool, struct spool_place place, struct error *err)
{
	const struct spool_header *h = spool->header;

	/* The recorder may have been killed before it released what is before the place. */
	if (place.memory < get(&h->memory_released) || place.memory > get(&h->memory_written) ||
	    place.file < get(&h->file_released) || place.file > get(&h->file_written))
		return fail(err, EBADMSG, "the spool in %s does not fit its checkpoint",
			    spool->dir);
	set(&spool->memory_read, place.memory);
	set(&spool->file_read, place.file);
	return 0;
}

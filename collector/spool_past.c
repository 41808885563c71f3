// SPDX-License-Identifier: Apache-2.0
#include "spool_internal.h"
#include "regular.h"
#include "subbuf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	MAX_SLOT_BYTES = 8 << 20, /* 128 pages of 64 KB, the largest sub-buffer of a kernel */
	MAX_MAP_MB = 1024,        /* recorders take 256 MB for all CPUs */
};

void spool_end(struct spool *spool, const char *how, const struct ring_stats *counts)
{
	struct spool_header *h = spool->header;

	h->counts = *counts;
	snprintf(h->ended, sizeof(h->ended), "%s", how);
}

struct spool_past spool_past(const struct spool *spool)
{
	return (struct spool_past){spool->header->ended, spool->header->counts, spool->cut};
}

static bool are_counts(const struct ring_stats *s)
{
	return s->entries <= MAX_COUNT && s->overrun <= MAX_COUNT &&
	       s->commit_overrun <= MAX_COUNT && s->dropped <= MAX_COUNT && s->read <= MAX_COUNT;
}

static int check_header(const struct spool_header *h, const char *path, int cpu, struct error *err)
{
	if (memcmp(h->magic, SPOOL_MAGIC, sizeof(h->magic)))
		return fail(err, EBADMSG, "%s: not a spool", path);
	if (h->byte_order != BYTE_ORDER_MARK)
		return fail(err, EBADMSG, "%s: from a machine with the other byte order", path);
	if (h->version != VERSION)
		return fail(err, EBADMSG, "%s: a spool of version %u, not %d", path, h->version,
			    VERSION);
	if (h->long_bytes != sizeof(long))
		return fail(err, EBADMSG, "%s: from a machine with words of %u bytes, not %zu",
			    path, h->long_bytes, sizeof(long));
	if (!h->slot_bytes || h->slot_bytes % SPOOL_BLOCK || h->slot_bytes > MAX_SLOT_BYTES ||
	    !h->slots || h->slots > ((uint64_t)MAX_MAP_MB << 20) / h->slot_bytes)
		return fail(err, EBADMSG, "%s: damaged: %llu slots of %llu bytes", path,
			    (unsigned long long)h->slots, (unsigned long long)h->slot_bytes);
	if (h->cpu != (uint32_t)cpu)
		return fail(err, EBADMSG, "%s: the spool of cpu %u", path, h->cpu);
	if (!memchr(h->ended, '\0', sizeof(h->ended)) || !are_counts(&h->counts))
		return fail(err, EBADMSG, "%s: damaged counts of the ring", path);
	return 0;
}

/* Whether the counts of a former recorder's spool match each other and the files. */
static int check_counts(const struct spool *spool, off_t bytes, const char *path, struct error *err)
{
	const struct spool_header *h = spool->header;
	uint64_t memory = get(&h->memory_written), file = get(&h->file_written);
	uint64_t released = get(&h->file_released);
	uint64_t slots = ((uint64_t)bytes + h->slot_bytes - 1) / h->slot_bytes;

	if (memory > MAX_COUNT || file > MAX_COUNT || memory < get(&h->memory_released) ||
	    memory - get(&h->memory_released) > h->slots || file < released)
		return fail(err, EBADMSG, "%s: damaged: sub-buffers %llu to %llu in %llu slots",
			    path, (unsigned long long)get(&h->memory_released),
			    (unsigned long long)memory, (unsigned long long)h->slots);
	/* The last sub-buffer may be short, but not absent. */
	if (file > released && (released < h->file_base || file - h->file_base > slots))
		return fail(err, EBADMSG, "%s.more: truncated", path);
	return 0;
}

/*
 * End before the first sub-buffer of the overflow that is a hole: its writer left none, and a file
 * of any size may consist of holes. A file system that does not know its holes is read as it is.
 */
static void cut_at_hole(struct spool *spool)
{
	struct spool_header *h = spool->header;
	uint64_t slot = h->slot_bytes, nr = get(&h->file_released);
	off_t data, hole;

	while (nr < get(&h->file_written)) {
		data = lseek(spool->fd, (off_t)((nr - h->file_base) * slot), SEEK_DATA);
		if (data < 0 && errno != ENXIO)
			return;
		if (data < 0 || (uint64_t)data / slot > nr - h->file_base) {
			set(&h->file_written, nr);
			spool->cut = true;
			return;
		}
		hole = lseek(spool->fd, data, SEEK_HOLE);
		if (hole <= data)
			return;
		nr = h->file_base + ((uint64_t)hole + slot - 1) / slot;
	}
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
	struct stat st = {0};
	char path[PATH_MAX];

	spool_file_name(path, spool->dir, cpu, ".more");
	spool->fd = regular_open(path, O_NOFOLLOW, &st, err);
	*bytes = st.st_size;
	return spool->fd < 0 ? spool->fd : 0;
}

/* Map `map_bytes` of the file privately: corrections do not reach the file. */
static int map_past(struct spool *spool, int fd, off_t size, const char *path, struct error *err)
{
	void *memory;

	if ((uint64_t)size < map_bytes(spool))
		return fail(err, EBADMSG, "%s: truncated", path);
	memory = mmap(NULL, map_bytes(spool), PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (memory == MAP_FAILED)
		return fail(err, errno, "%s: %s", path, strerror(errno));
	spool->header = memory;
	return 0;
}

/* Open the file of a CPU and read its header. The descriptor or an error. */
static int open_header(struct spool_header *h, const char *dir, int cpu, off_t *size,
		       struct error *err)
{
	struct stat st = {0};
	char path[PATH_MAX];
	ssize_t nr;
	int fd, ret;

	spool_file_name(path, dir, cpu, "");
	fd = regular_open(path, O_NOFOLLOW, &st, err);
	if (fd < 0)
		return fd;
	*size = st.st_size;
	nr = pread(fd, h, sizeof(*h), 0);
	if (nr < 0)
		ret = fail(err, errno, "%s: %s", path, strerror(errno));
	else if (nr < (ssize_t)sizeof(*h))
		ret = fail(err, EBADMSG, "%s: not a spool", path);
	else
		ret = check_header(h, path, cpu, err);
	if (ret)
		close(fd);
	return ret ? ret : fd;
}

static int open_past(struct spool **out, const char *dir, int cpu, struct error *err)
{
	off_t size = 0, more_size = 0;
	struct spool_header h;
	char path[PATH_MAX];
	int fd, ret;

	spool_file_name(path, dir, cpu, "");
	fd = open_header(&h, dir, cpu, &size, err);
	if (fd < 0)
		return fd;
	ret = spool_new_shell(out, dir, h.slot_bytes, h.slots, err);
	ret = ret ?: map_past(*out, fd, size, path, err);
	close(fd);
	ret = ret ?: open_overflow(*out, cpu, &more_size, err);
	ret = ret ?: check_counts(*out, more_size, path, err);
	if (ret)
		return ret;
	(*out)->keep = true;
	cut_at_hole(*out);
	find_last(*out);
	set(&(*out)->memory_read, get(&h.memory_released));
	set(&(*out)->file_read, get(&h.file_released));
	return 0;
}

int spool_open(struct spool **out, const char *dir, int cpu, struct error *err)
{
	int ret;

	*out = NULL;
	ret = open_past(out, dir, cpu, err);
	if (ret) {
		spool_free(*out);
		*out = NULL;
	}
	return ret;
}

int spool_look(const char *dir, int cpu, struct spool_state *out, struct error *err)
{
	struct spool_header h;
	uint64_t in, released;
	off_t size;
	int fd = open_header(&h, dir, cpu, &size, err);

	if (fd < 0)
		return fd;
	close(fd);
	in = written(&h);
	released = get(&h.memory_released) + get(&h.file_released);
	/* A recorder that runs may have released more since the first count was read. */
	out->waiting = in > released ? in - released : 0;
	if (out->waiting > MAX_COUNT / h.slot_bytes)
		return fail(err, EBADMSG, "%s/cpu%d: damaged counts", dir, cpu);
	out->waiting *= h.slot_bytes;
	memcpy(out->ended, h.ended, sizeof(out->ended));
	return 0;
}

int spool_seek(struct spool *spool, struct spool_place place, struct error *err)
{
	const struct spool_header *h = spool->header;

	/* The recorder may have been killed before it released everything before the place. */
	if (place.memory < get(&h->memory_released) || place.memory > get(&h->memory_written) ||
	    place.file < get(&h->file_released) || place.file > get(&h->file_written))
		return fail(err, EBADMSG, "the spool in %s does not fit its checkpoint",
			    spool->dir);
	set(&spool->memory_read, place.memory);
	set(&spool->file_read, place.file);
	return 0;
}

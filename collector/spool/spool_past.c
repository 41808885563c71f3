// SPDX-License-Identifier: Apache-2.0
/*
 * Spools of former recorders.
 */
#include "spool_internal.h"
#include "input/regular.h"
#include "ring/subbuf.h"

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
	struct spool_start *start = &spool->header->start;

	start->counts = *counts;
	snprintf(start->ended, sizeof(start->ended), "%s", how);
}

struct spool_past spool_past(const struct spool *spool)
{
	return (struct spool_past){spool->start.ended, spool->start.counts, spool->cut};
}

static bool are_counts(const struct ring_stats *s)
{
	return s->entries <= MAX_COUNT && s->overrun <= MAX_COUNT &&
	       s->commit_overrun <= MAX_COUNT && s->dropped <= MAX_COUNT && s->read <= MAX_COUNT;
}

static int check_start(const struct spool_start *h, const char *path, int cpu, struct error *err)
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

/*
 * What a former recorder left.
 */

static void add_extent(struct spool *spool, uint64_t nr, bool in_file, uint64_t at)
{
	if (!nr)
		return;
	spool->extents[spool->nr_extents++] =
		(struct spool_extent){spool->end, spool->end + nr, in_file, at};
	spool->end += nr;
}

/* Whether the recorder had taken a sub-buffer that it had not counted, into this slot. */
static bool took_one(const struct spool *spool, uint64_t slot)
{
	const char *at = (const char *)spool->header + HEADER_BYTES + slot * spool->slot_bytes;

	return ((const struct subbuf *)at)->commit & SUBBUF_BYTES;
}

static int damaged(const char *path, uint64_t first, uint64_t end, uint64_t slots,
		   struct error *err)
{
	return fail(err, EBADMSG, "%s: damaged: sub-buffers %llu to %llu in %llu slots", path,
		    (unsigned long long)first, (unsigned long long)end, (unsigned long long)slots);
}

/* Whether the file has all slots from `released` to `stored`; the last may be short. */
static bool is_in_file(const struct spool_header *h, uint64_t released, uint64_t stored,
		       uint64_t in_file)
{
	if (released < h->file_base || stored - released > h->file_slots)
		return false;
	if (file_slot(h, stored - 1) < file_slot(h, released)) /* around the end */
		return in_file >= h->file_slots;
	return file_slot(h, stored - 1) < in_file;
}

static int find_extents(struct spool *spool, const struct spool_header *h, uint64_t in_file,
			const char *path, struct error *err)
{
	uint64_t filled = h->filled, stored = h->stored, released = h->released, first, nr;

	first = stored > released ? stored : released; /* in memory */
	if (filled > MAX_COUNT || first > filled || filled - first > spool->slots)
		return damaged(path, first, filled, spool->slots, err);
	if (!h->file_slots || h->file_slots > (uint64_t)INT64_MAX / spool->slot_bytes)
		return fail(err, EBADMSG, "%s: damaged: a file of %llu slots", path,
			    (unsigned long long)h->file_slots);
	if (stored > released && !is_in_file(h, released, stored, in_file))
		return fail(err, EBADMSG, "%s.more: truncated", path);
	spool->read = spool->end = released;
	spool->file_slots = h->file_slots;
	if (stored > released)
		add_extent(spool, stored - released, true, file_slot(h, released));
	nr = filled - first;
	if (h->taking == filled + 1 && nr < spool->slots && took_one(spool, filled % spool->slots))
		nr++;
	add_extent(spool, nr, false, first % spool->slots);
	return 0;
}

/* The extent ends before number n, and the spool with it. */
static void end_before(struct spool *spool, struct spool_extent *x, uint64_t n)
{
	x->end = spool->end = n;
	spool->nr_extents = (int)(x - spool->extents) + 1;
	spool->cut = true;
}

/*
 * End before the first sub-buffer of the overflow that is a hole: its writer left none, and a file
 * of any size may consist of holes. A file system that does not know its holes is read as it is.
 */
static void cut_at_hole(struct spool *spool, struct spool_extent *x)
{
	off_t bytes = (off_t)spool->slot_bytes, data, hole;
	uint64_t n = x->first, slot, next;

	while (n < x->end) {
		slot = (x->at + (n - x->first)) % spool->file_slots;
		data = lseek(spool->fd, (off_t)slot * bytes, SEEK_DATA);
		if (data < 0 && errno != ENXIO)
			return;
		if (data < 0 || (uint64_t)(data / bytes) > slot) {
			end_before(spool, x, n);
			return;
		}
		hole = lseek(spool->fd, data, SEEK_HOLE);
		if (hole <= data)
			return;
		next = (uint64_t)(hole + bytes - 1) / spool->slot_bytes;
		n += (next < spool->file_slots ? next : spool->file_slots) - slot;
	}
}

static int open_overflow(struct spool *spool, int cpu, uint64_t *slots, struct error *err)
{
	struct stat st = {0};
	char path[PATH_MAX];

	spool_file_name(path, spool->dir, cpu, ".more");
	spool->fd = regular_open(path, O_NOFOLLOW, &st, err);
	*slots = ((uint64_t)st.st_size + spool->slot_bytes - 1) / spool->slot_bytes;
	return spool->fd < 0 ? spool->fd : 0;
}

static int map_past(struct spool *spool, int fd, off_t size, const char *path, struct error *err)
{
	size_t bytes = HEADER_BYTES + spool->slots * spool->slot_bytes;
	void *memory;

	if ((uint64_t)size < bytes)
		return fail(err, EBADMSG, "%s: truncated", path);
	memory = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	if (memory == MAP_FAILED)
		return fail(err, errno, "%s: %s", path, strerror(errno));
	spool->header = memory;
	spool->map_bytes = bytes;
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
		ret = check_start(&h->start, path, cpu, err);
	if (ret)
		close(fd);
	return ret ? ret : fd;
}

static int open_past(struct spool **out, const char *dir, int cpu, struct error *err)
{
	struct spool *spool;
	uint64_t in_file = 0;
	struct spool_header h;
	char path[PATH_MAX];
	off_t size = 0;
	int fd, ret;

	spool_file_name(path, dir, cpu, "");
	fd = open_header(&h, dir, cpu, &size, err);
	if (fd < 0)
		return fd;
	ret = spool_new_shell(out, dir, h.start.slot_bytes, h.start.slots, err);
	spool = *out;
	if (!ret) {
		spool->past = true;
		spool->start = h.start;
		spool->load = h.load;
		ret = map_past(spool, fd, size, path, err);
	}
	close(fd);
	ret = ret ?: open_overflow(spool, cpu, &in_file, err);
	if (ret)
		return ret;
	ret = find_extents(spool, &h, in_file, path, err);
	for (int i = 0; i < spool->nr_extents && !ret; i++)
		if (spool->extents[i].in_file)
			cut_at_hole(spool, &spool->extents[i]);
	return ret;
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
	in = h.filled;
	released = h.released;
	/* A recorder that runs may have released more since the first count was read. */
	out->waiting = in > released ? in - released : 0;
	if (out->waiting > MAX_COUNT / h.start.slot_bytes)
		return fail(err, EBADMSG, "%s/cpu%d: damaged counts", dir, cpu);
	out->waiting *= h.start.slot_bytes;
	memcpy(out->ended, h.start.ended, sizeof(out->ended));
	return 0;
}

/*
 * Reading.
 */

int spool_pop_past(struct spool *spool, const void **subbuf, struct error *err)
{
	uint64_t n = get(&spool->read);
	const struct spool_extent *x = spool->extents;
	uint64_t slot;

	while (x < spool->extents + spool->nr_extents && n >= x->end)
		x++;
	if (x == spool->extents + spool->nr_extents)
		return 0;
	slot = x->at + (n - x->first);
	if (x->in_file) {
		*subbuf = spool->buffer;
		return spool_read_file(spool, slot % spool->file_slots, 1, err) ?: 1;
	}
	if (x->at < spool->slots)
		slot %= spool->slots;
	*subbuf = (const char *)spool->header + HEADER_BYTES + slot * spool->slot_bytes;
	return 1;
}

int spool_seek(struct spool *spool, uint64_t place, struct error *err)
{
	/* The recorder may have been killed before it released everything before the place. */
	if (place < get(&spool->read) || place > spool->end)
		return fail(err, EBADMSG, "the spool in %s does not fit its checkpoint",
			    spool->dir);
	set(&spool->read, place);
	return 0;
}

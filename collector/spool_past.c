// SPDX-License-Identifier: Apache-2.0
#include "spool_internal.h"
#include "subbuf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_SLOT_BYTES = 64 << 20 };

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
	    !h->slots || h->slots > UINT32_MAX || !memchr(h->ended, '\0', sizeof(h->ended)))
		return fail(err, EBADMSG, "%s: damaged: %llu slots of %llu bytes", path,
			    (unsigned long long)h->slots, (unsigned long long)h->slot_bytes);
	return 0;
}

/* Whether the counts of a former recorder's spool match each other and the files. */
static int check_counts(const struct spool *spool, off_t bytes, const char *path, struct error *err)
{
	const struct spool_header *h = spool->header;
	uint64_t in_memory = get(&h->memory_written) - get(&h->memory_released);
	uint64_t in_file = get(&h->file_written) - get(&h->file_released);
	uint64_t last = get(&h->file_written) - h->file_base;

	if (in_memory > h->slots || get(&h->file_written) < get(&h->file_released))
		return fail(err, EBADMSG, "%s: damaged: %llu sub-buffers in %llu slots", path,
			    (unsigned long long)in_memory, (unsigned long long)h->slots);
	/* The last sub-buffer may be short, but not absent. */
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

	spool_file_name(path, spool->dir, cpu, ".more");
	spool->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (spool->fd < 0 || fstat(spool->fd, &st))
		return fail(err, errno, "%s: %s", path, strerror(errno));
	*bytes = st.st_size;
	return 0;
}

/* Map `map_bytes` of the file privately: corrections do not reach the file. */
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
	ret = ret ?: spool_new_shell(out, dir, h.slot_bytes, h.slots, err);
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
	spool_file_name(path, dir, cpu, "");
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

	spool_file_name(path, dir, cpu, "");
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

	/* The recorder may have been killed before it released everything before the place. */
	if (place.memory < get(&h->memory_released) || place.memory > get(&h->memory_written) ||
	    place.file < get(&h->file_released) || place.file > get(&h->file_written))
		return fail(err, EBADMSG, "the spool in %s does not fit its checkpoint",
			    spool->dir);
	set(&spool->memory_read, place.memory);
	set(&spool->file_read, place.file);
	return 0;
}

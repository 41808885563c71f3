// SPDX-License-Identifier: Apache-2.0
/*
 * What spools of live and of past recordings have in common: the struct, and reads of the file.
 */
#include "spool_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BATCH_BYTES = 1 << 20 };

/* Slots of one write to the file: memory must have room while the write is under way. */
static size_t batch_slots(size_t slot_bytes, size_t slots)
{
	size_t batch = BATCH_BYTES / slot_bytes;

	if (batch > slots / 4)
		batch = slots / 4;
	return batch ? batch : 1;
}

size_t spool_memory(size_t slot_bytes, size_t slots)
{
	return HEADER_BYTES + (slots + batch_slots(slot_bytes, slots)) * slot_bytes;
}

int spool_new_shell(struct spool **out, const char *dir, size_t slot_bytes, size_t slots,
		    struct error *err)
{
	struct spool *spool = calloc(1, sizeof(*spool));

	*out = spool;
	if (!spool)
		return fail(err, ENOMEM, "no memory for a spool");
	*spool = (struct spool){.slot_bytes = slot_bytes, .slots = slots, .fd = -1};
	spool->batch = batch_slots(slot_bytes, slots);
	spool->dir = strdup(dir);
	spool->buffer = mmap(NULL, spool->batch * slot_bytes, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!spool->dir || spool->buffer == MAP_FAILED)
		return fail(err, ENOMEM, "no memory for a spool");
	return 0;
}

void spool_free(struct spool *spool)
{
	if (!spool)
		return;
	if (spool->header)
		munmap(spool->header, spool->map_bytes);
	if (spool->buffer && spool->buffer != MAP_FAILED)
		munmap(spool->buffer, spool->batch * spool->slot_bytes);
	if (spool->fd >= 0)
		close(spool->fd);
	free(spool->dir);
	free(spool);
}

static int read_slots(struct spool *spool, uint64_t at, size_t nr, struct error *err)
{
	off_t from = (off_t)(at * spool->slot_bytes);
	size_t room = nr * spool->slot_bytes;
	char *to = spool->buffer;

	while (room) {
		ssize_t got = pread(spool->fd, to, room, from);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return fail(err, errno, "cannot read the spool in %s: %s", spool->dir,
				    strerror(errno));
		if (got == 0) /* the unused end of the last one was not written */
			break;
		to += got;
		from += got;
		room -= (size_t)got;
	}
	memset(to, 0, room);
	return 0;
}

int spool_read_file(struct spool *spool, uint64_t at, size_t nr, struct error *err)
{
	int ret;

	if (spool->disk)
		spool->disk(spool->disk_context, true);
	ret = read_slots(spool, at, nr, err);
	if (spool->disk)
		spool->disk(spool->disk_context, false);
	return ret;
}

// SPDX-License-Identifier: Apache-2.0
/* What each reader tells of its file: CPUs, threads, records and losses. */
#include "foreign_internal.h"
#include "ring/subbuf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
	FIRST_COMMS = 1024,  /* slots, a power of two */
	MAX_COMMS = 1 << 22, /* PID_MAX_LIMIT */
};

int foreign_see_cpu(struct foreign *f, int64_t cpu, struct error *err)
{
	struct source *s = &f->source;
	struct ring *rings;
	uint64_t *waiting, *untimed;

	if (cpu < 0 || cpu >= DECODER_CPUS)
		return fail(err, EINVAL, "%s: damaged: CPU %lld", f->path, (long long)cpu);
	if (f->ring_of[cpu] >= 0)
		return 0;
	rings = reallocarray(s->rings, s->nr_rings + 1, sizeof(*rings));
	if (rings)
		s->rings = rings;
	waiting = reallocarray(f->waiting, s->nr_rings + 1, sizeof(*waiting));
	if (waiting)
		f->waiting = waiting;
	untimed = reallocarray(f->untimed, s->nr_rings + 1, sizeof(*untimed));
	if (untimed)
		f->untimed = untimed;
	if (!rings || !waiting || !untimed)
		return fail(err, ENOMEM, "no memory for %zu rings", s->nr_rings + 1);
	waiting[s->nr_rings] = NOTHING_LOST;
	untimed[s->nr_rings] = 0;
	rings[s->nr_rings] = ring_unread((int)cpu, "");
	f->ring_of[cpu] = (int32_t)s->nr_rings++;
	if (cpu >= f->facts.cpus)
		f->facts.cpus = (int)cpu + 1;
	return 0;
}

static struct comm *comm_slot(struct comm *comms, size_t slots, int32_t pid)
{
	size_t at = (size_t)pid * 2654435761u & (slots - 1);

	while (comms[at].pid && comms[at].pid != pid)
		at = (at + 1) & (slots - 1);
	return &comms[at];
}

static int grow_comms(struct foreign *f, struct error *err)
{
	size_t slots = f->comm_slots ? 2 * f->comm_slots : FIRST_COMMS;
	struct comm *comms = calloc(slots, sizeof(*comms));

	if (!comms)
		return fail(err, ENOMEM, "no memory for the names of %zu threads", f->nr_comms);
	for (size_t i = 0; i < f->comm_slots; i++)
		if (f->comms[i].pid)
			*comm_slot(comms, slots, f->comms[i].pid) = f->comms[i];
	free(f->comms);
	f->comms = comms;
	f->comm_slots = slots;
	return 0;
}

int foreign_see_comm(struct foreign *f, int64_t pid, struct words comm, struct error *err)
{
	struct comm *slot;
	size_t length = comm.length;

	if (pid <= 0 || pid >= MAX_COMMS || !length || words_are(comm, "<...>"))
		return 0;
	if (2 * (f->nr_comms + 1) > f->comm_slots) {
		int ret = grow_comms(f, err);

		if (ret)
			return ret;
	}
	slot = comm_slot(f->comms, f->comm_slots, (int32_t)pid);
	length = length < sizeof(slot->comm) ? length : sizeof(slot->comm) - 1;
	f->nr_comms += !slot->pid;
	slot->pid = (int32_t)pid;
	memcpy(slot->comm, comm.text, length);
	slot->comm[length] = '\0';
	return 0;
}

/* What was lost before `to_ts` on a ring becomes a gap, if anything was. */
static int lose_now(struct foreign *f, size_t ring, uint64_t to_ts, struct error *err)
{
	const struct ring *r = &f->source.rings[ring];
	struct gap gap = {r->cpu, r->read ? r->last_ts : UNKNOWN_COUNT, to_ts, f->waiting[ring]};

	if (f->waiting[ring] == NOTHING_LOST)
		return 0;
	f->waiting[ring] = NOTHING_LOST;
	return source_lose(&f->source, gap, err);
}

int foreign_lose_untimed(struct foreign *f, size_t ring, struct error *err)
{
	struct gap gap = {f->source.rings[ring].cpu, UNKNOWN_COUNT, UNKNOWN_COUNT,
			  f->untimed[ring]};
	int ret = lose_now(f, ring, UNKNOWN_COUNT, err);

	return ret || !gap.events ? ret : source_lose(&f->source, gap, err);
}

int foreign_add(struct foreign *f, int cpu, uint64_t ts, const void *record, int size,
		struct error *err)
{
	size_t number = (size_t)f->ring_of[cpu];
	struct ring *ring = &f->source.rings[number];
	int ret;

	/* Time does not go back on a tape. */
	ts = ts > f->last_ts ? ts : f->last_ts;
	f->last_ts = ts;
	ret = lose_now(f, number, ts, err);
	if (ret)
		return ret;
	if (!ring->read++)
		ring->first_ts = ts;
	ring->last_ts = ts;
	return source_add(&f->source, cpu, ts, record, size, err);
}

void foreign_lose(struct foreign *f, int64_t cpu, uint64_t events)
{
	uint64_t *waiting;

	if (cpu < 0 || cpu >= DECODER_CPUS || f->ring_of[cpu] < 0)
		return;
	waiting = &f->waiting[f->ring_of[cpu]];
	if (*waiting == UNKNOWN_COUNT || events > MAX_COUNT || *waiting > MAX_COUNT)
		*waiting = UNKNOWN_COUNT;
	else
		*waiting += events;
}

static int remap(struct foreign *f, FILE *file, struct error *err)
{
	off_t size = ftello(file);
	void *data = MAP_FAILED;

	if (f->packed)
		return fail(err, EBADMSG, "%s: damaged: compressed twice", f->path);
	if (size > 0)
		data = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fileno(file), 0);
	if (data == MAP_FAILED)
		return fail(err, EBADMSG, "%s: damaged: nothing could be decompressed", f->path);
	f->packed = f->data;
	f->packed_size = f->size;
	f->data = data;
	f->size = (uint64_t)size;
	f->nr_parts = 0;
	f->source.bad = 0;
	return 0;
}

int foreign_unpack(struct foreign *f, inflate_fn *inflate, struct span packed, struct error *err)
{
	FILE *file = tmpfile();
	struct error why;
	int ret;

	if (!file)
		return fail(err, errno, "%s: no temporary file: %s", f->path, strerror(errno));
	ret = inflate(file, packed, &why);
	if (ret)
		fail(err, -ret, "%s: %s", f->path, why.msg);
	ret = ret ?: remap(f, file, err);
	fclose(file);
	return ret;
}

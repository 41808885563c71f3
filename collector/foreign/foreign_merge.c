// SPDX-License-Identifier: Apache-2.0
/* The parts of a file: found in the first pass, merged by time in the second one. */
#include "foreign_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_PARTS = 1 << 20, /* later events get the time of the one before them */
	LOOK_BACK = 64,      /* streams of a CPU that a part may continue */
};

static int add_part(struct foreign *f, const struct part *part, struct error *err)
{
	struct part *parts = f->parts;

	if (!(f->nr_parts & (f->nr_parts - 1))) { /* a power of two, or none: full */
		parts = reallocarray(parts, f->nr_parts ? 2 * f->nr_parts : 1, sizeof(*parts));
		if (!parts)
			return fail(err, ENOMEM, "no memory for %zu parts", f->nr_parts);
		f->parts = parts;
	}
	parts[f->nr_parts++] = *part;
	return 0;
}

int foreign_see_event(struct foreign *f, uint64_t begin, uint64_t end, int cpu, uint64_t ts,
		      struct error *err)
{
	struct part *last = f->nr_parts ? &f->parts[f->nr_parts - 1] : NULL;
	struct part part = {begin, end, ts, ts, cpu, -1};

	if (!last || ((last->cpu != cpu || last->last_ts > ts) && f->nr_parts < MAX_PARTS))
		return add_part(f, &part, err);
	last->end = end;
	last->last_ts = ts;
	return 0;
}

void foreign_cover(struct foreign *f, uint64_t begin, uint64_t end)
{
	for (size_t i = 0; i < f->nr_parts; i++) {
		f->parts[i].begin = i ? f->parts[i - 1].end : begin;
		if (i + 1 == f->nr_parts)
			f->parts[i].end = end;
	}
}

/* A stream that is being made of parts; those of a CPU are linked, newest first. */
struct chain {
	uint64_t last_ts;
	int32_t before;
};

/* The stream of the CPU that ended before the part begins, or a new one. */
static int32_t find_stream(struct chain *chains, int32_t *newest, const struct part *part,
			   size_t *nr)
{
	int32_t at = *newest;

	for (int i = 0; at >= 0 && i < LOOK_BACK && chains[at].last_ts > part->first_ts; i++)
		at = chains[at].before;
	if (at < 0 || chains[at].last_ts > part->first_ts) {
		at = (int32_t)(*nr)++;
		chains[at].before = *newest;
		*newest = at;
	}
	chains[at].last_ts = part->last_ts;
	return at;
}

static int by_stream(const void *a, const void *b)
{
	const struct part *one = a, *two = b;

	/* Equal times come out by CPU, as in a trace.dat. */
	if (one->cpu != two->cpu)
		return one->cpu < two->cpu ? -1 : 1;
	if (one->stream != two->stream)
		return one->stream < two->stream ? -1 : 1;
	return one->begin < two->begin ? -1 : one->begin > two->begin;
}

int foreign_chain(struct foreign *f, struct error *err)
{
	struct chain *chains = calloc(f->nr_parts + 1, sizeof(*chains));
	int32_t *newest = malloc(DECODER_CPUS * sizeof(*newest));

	f->cursors = NULL;
	if (chains && newest) {
		memset(newest, 0xff, DECODER_CPUS * sizeof(*newest));
		for (struct part *p = f->parts; p < f->parts + f->nr_parts; p++)
			p->stream = find_stream(chains, &newest[p->cpu], p, &f->nr_streams);
		if (f->nr_parts)
			qsort(f->parts, f->nr_parts, sizeof(*f->parts), by_stream);
		f->cursors = calloc(f->nr_streams + 1, sizeof(*f->cursors));
		f->merge.heap = calloc(f->nr_streams + 1, sizeof(*f->merge.heap));
	}
	free(chains);
	free(newest);
	return f->cursors && f->merge.heap
		       ? 0
		       : fail(err, ENOMEM, "no memory for %zu parts", f->nr_parts);
}

static void enter_part(struct foreign *f, struct cursor *c)
{
	c->next = (const uint8_t *)f->data + f->parts[c->part].begin;
	c->end = (const uint8_t *)f->data + f->parts[c->part].end;
}

static bool advance(struct foreign *f, struct cursor *c)
{
	while (!f->reader->next(f, c)) {
		f->bytes_done += f->parts[c->part].end - f->parts[c->part].begin;
		if (f->size)
			__atomic_store_n(
				&f->source.progress,
				(uint64_t)((double)f->bytes_done / (double)f->size * (1 << 20)),
				__ATOMIC_RELAXED);
		if (c->part == c->last_part)
			return false;
		c->part++;
		enter_part(f, c);
	}
	return true;
}

int foreign_merge(struct foreign *f, struct error *err)
{
	size_t part = 0;
	int ret = 0;

	for (size_t i = 0; i < f->nr_streams; i++) {
		struct cursor *c = &f->cursors[i];

		*c = (struct cursor){.number = i, .part = part};
		while (part + 1 < f->nr_parts && f->parts[part + 1].stream == f->parts[part].stream)
			part++;
		c->last_part = part++;
		enter_part(f, c);
		if (advance(f, c))
			merge_add(&f->merge, i, c->ts);
	}
	while (f->merge.nr && !ret) {
		struct cursor *c = &f->cursors[f->merge.heap[0].source];

		ret = f->reader->add(f, c, err);
		if (advance(f, c))
			merge_advance(&f->merge, c->ts);
		else
			merge_drop(&f->merge);
	}
	return ret;
}

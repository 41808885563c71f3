// SPDX-License-Identifier: Apache-2.0
/* The state of a decoder, saved and restored at the cut of a rotation. */
#include "decode_internal.h"
#include "ring/subbuf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Words: rows of `event`, bad records, and the number of types, pids, CPUs, stacks. Then
 * (type, count)... pid... (cpu, ts, pid, what)... and (frames, frame...)...
 */
enum {
	SAVED_EVENTS,
	SAVED_BAD,
	SAVED_TYPES,
	SAVED_PIDS,
	SAVED_CPUS,
	SAVED_STACKS,
	SAVED_HEAD,
};

static void put_word(FILE *to, uint64_t value)
{
	fwrite(&value, sizeof(value), 1, to);
}

/* Returns the number of types. */
static uint64_t save_types(const struct decoder *d, FILE *to)
{
	uint64_t nr = 0;

	for (uint64_t type = 0; type < NR_TYPES; type++) {
		if (!d->by_type[type] || !d->by_type[type]->count.events)
			continue;
		put_word(to, type);
		put_word(to, d->by_type[type]->count.events);
		nr++;
	}
	return nr;
}

static uint64_t save_pids(const struct decoder *d, FILE *to)
{
	uint64_t nr = 0;

	for (uint64_t pid = 0; pid < MAX_PID; pid++) {
		uint64_t left = d->pids[pid / 64] >> pid % 64;

		if (left & 1) {
			put_word(to, pid);
			nr++;
		} else if (!left) {
			pid |= 63;
		}
	}
	return nr;
}

static uint64_t save_cpus(const struct decoder *d, FILE *to)
{
	uint64_t nr = 0;

	for (uint64_t cpu = 0; d->last && cpu < DECODER_CPUS; cpu++) {
		if (d->last[cpu].what == NOTHING)
			continue;
		put_word(to, cpu);
		put_word(to, d->last[cpu].ts);
		put_word(to, (uint64_t)d->last[cpu].pid);
		put_word(to, d->last[cpu].what);
		nr++;
	}
	return nr;
}

static uint64_t save_stacks(const struct decoder *d, FILE *to)
{
	uint64_t frames[STACK_FRAMES];
	uint32_t nr = 0;
	int length;

	while (d->stacks && (length = stacks_get(d->stacks, nr, frames)) >= 0) {
		put_word(to, (uint64_t)length);
		fwrite(frames, sizeof(frames[0]), (size_t)length, to);
		nr++;
	}
	return nr;
}

uint64_t *decoder_save(const struct decoder *d, size_t *nr)
{
	uint64_t head[SAVED_HEAD] = {[SAVED_EVENTS] = d->nr_events, [SAVED_BAD] = d->bad};
	char *words = NULL;
	size_t size = 0;
	FILE *to = open_memstream(&words, &size);

	if (!to)
		return NULL;
	fwrite(head, sizeof(head), 1, to);
	head[SAVED_TYPES] = save_types(d, to);
	head[SAVED_PIDS] = save_pids(d, to);
	head[SAVED_CPUS] = save_cpus(d, to);
	head[SAVED_STACKS] = save_stacks(d, to);
	if (fclose(to)) {
		free(words);
		return NULL;
	}
	memcpy(words, head, sizeof(head));
	*nr = size / sizeof(uint64_t);
	return (uint64_t *)words;
}

/* The unread words of a saved decoder. */
struct reading {
	const uint64_t *word, *end;
	bool short_of; /* there were too few words */
};

static uint64_t get_word(struct reading *r)
{
	if (r->word == r->end)
		r->short_of = true;
	return r->short_of ? 0 : *r->word++;
}

static void restore_last(struct decoder *d, struct reading *r)
{
	uint64_t cpu = get_word(r), ts = get_word(r), pid = get_word(r);
	bool page = get_word(r) == PAGE_EVENT;

	if (d->last && cpu < DECODER_CPUS)
		d->last[cpu] = (struct last){ts, (int32_t)pid, page ? PAGE_EVENT : OTHER};
}

static void restore_stack(struct decoder *d, struct reading *r)
{
	uint64_t frames[STACK_FRAMES], length = get_word(r);

	for (uint64_t i = 0; i < length && i < STACK_FRAMES; i++)
		frames[i] = get_word(r);
	if (d->stacks && length <= STACK_FRAMES)
		stacks_add(d->stacks, frames, (int)length);
}

bool decoder_restore(struct decoder *d, const uint64_t *words, size_t nr)
{
	struct reading r = {words + SAVED_HEAD, words + nr, nr < SAVED_HEAD};

	if (r.short_of || words[SAVED_EVENTS] > MAX_COUNT || words[SAVED_BAD] > MAX_COUNT)
		return false;
	for (uint64_t i = 0; i < words[SAVED_TYPES] && !r.short_of; i++) {
		uint64_t type = get_word(&r), events = get_word(&r);

		if (type >= NR_TYPES || !d->by_type[type] || events > MAX_COUNT)
			return false;
		d->by_type[type]->count.events = events;
	}
	for (uint64_t i = 0; i < words[SAVED_PIDS] && !r.short_of; i++)
		see_pid(d, (int32_t)get_word(&r));
	for (uint64_t i = 0; i < words[SAVED_CPUS] && !r.short_of; i++)
		restore_last(d, &r);
	for (uint64_t i = 0; i < words[SAVED_STACKS] && !r.short_of; i++)
		restore_stack(d, &r);
	d->nr_events = words[SAVED_EVENTS];
	d->bad = words[SAVED_BAD];
	return !r.short_of && r.word == r.end;
}

// SPDX-License-Identifier: Apache-2.0
#include "unspool_checkpoint.h"

#include "ring/subbuf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Checkpoints. Words: MAGIC, number of cursors, of gaps, of the decoder's words; then
 * those.
 */

#define MAGIC 0x315f74706b637470ull /* "ptckpt_1" */

enum { HEAD_MAGIC, HEAD_CURSORS, HEAD_GAPS, HEAD_DECODER, HEAD };

struct saved_cursor {
	uint64_t cpu;
	uint64_t place;
	uint64_t place_in_file; /* 0: once the numbers of a file of its own */
	uint64_t taken;
	uint64_t read, bytes, first_ts, last_ts;
	struct ring_stats before;
	uint64_t before_unknown;
};

struct saved_gap {
	uint64_t cpu, from_ts, to_ts, events;
};

enum {
	CURSOR_WORDS = sizeof(struct saved_cursor) / sizeof(uint64_t),
	GAP_WORDS = sizeof(struct saved_gap) / sizeof(uint64_t),
};

static struct saved_cursor *saved_cursors(const struct checkpoint *checkpoint)
{
	return (struct saved_cursor *)(checkpoint->words + HEAD);
}

static struct saved_gap *saved_gaps(const struct checkpoint *checkpoint)
{
	return (struct saved_gap *)(saved_cursors(checkpoint) + checkpoint->words[HEAD_CURSORS]);
}

static void save_cursor(const struct cursor *c, struct saved_cursor *to)
{
	*to = (struct saved_cursor){
		.cpu = (uint64_t)c->cpu,
		.place = spool_place(c->spool, !c->record),
		.taken = c->record ? c->taken : 0,
		.read = c->row.read,
		.bytes = c->row.bytes,
		.first_ts = c->row.first_ts,
		.last_ts = c->row.last_ts,
		.before = c->before,
		.before_unknown = c->before_unknown,
	};
}

int unspool_save(struct unspool *u, struct error *err)
{
	size_t nr_words, nr_cursors = (size_t)u->nr_cpus, nr_gaps = u->source.nr_gaps, nr;
	uint64_t *words = decoder_save(u->source.decoder, &nr_words);
	struct checkpoint *checkpoint = NULL;

	nr = HEAD + CURSOR_WORDS * nr_cursors + GAP_WORDS * nr_gaps;
	if (words)
		checkpoint = malloc(sizeof(*checkpoint) + (nr + nr_words) * sizeof(uint64_t));
	if (!checkpoint) {
		free(words);
		return fail(err, ENOMEM, "no memory for a checkpoint");
	}
	checkpoint->nr = nr + nr_words;
	checkpoint->words[HEAD_MAGIC] = MAGIC;
	checkpoint->words[HEAD_CURSORS] = nr_cursors;
	checkpoint->words[HEAD_GAPS] = nr_gaps;
	checkpoint->words[HEAD_DECODER] = nr_words;
	for (size_t i = 0; i < nr_cursors; i++)
		save_cursor(&u->cursors[i], &saved_cursors(checkpoint)[i]);
	for (size_t i = 0; i < nr_gaps; i++) {
		const struct gap *gap = &u->source.gaps[i];

		saved_gaps(checkpoint)[i] = (struct saved_gap){(uint64_t)gap->cpu, gap->from_ts,
							       gap->to_ts, gap->events};
	}
	memcpy(checkpoint->words + nr, words, nr_words * sizeof(*words));
	free(words);
	return source_checkpoint(&u->source, checkpoint, err);
}

void unspool_release(struct unspool *u, const struct checkpoint *checkpoint)
{
	for (int i = 0; i < u->nr_cpus; i++)
		spool_release(u->cursors[i].spool, saved_cursors(checkpoint)[i].place);
}

static bool is_sound(const struct checkpoint *checkpoint)
{
	const uint64_t *words = checkpoint->words;
	size_t left = checkpoint->nr - HEAD;

	if (checkpoint->nr < HEAD || words[HEAD_MAGIC] != MAGIC ||
	    words[HEAD_CURSORS] > left / CURSOR_WORDS)
		return false;
	left -= CURSOR_WORDS * words[HEAD_CURSORS];
	if (words[HEAD_GAPS] > left / GAP_WORDS)
		return false;
	return words[HEAD_DECODER] == left - GAP_WORDS * words[HEAD_GAPS];
}

static bool is_count(uint64_t value)
{
	return value <= MAX_COUNT;
}

static bool is_time(uint64_t value)
{
	return value <= SUBBUF_MAX_TS || value == UNKNOWN_COUNT;
}

static bool is_sound_cursor(const struct saved_cursor *c)
{
	return is_count(c->place_in_file) && is_count(c->taken) && is_count(c->read) &&
	       is_count(c->bytes) && is_time(c->first_ts) && is_time(c->last_ts) &&
	       is_count(c->before.overrun) && is_count(c->before.commit_overrun) &&
	       is_count(c->before.dropped) && is_count(c->before.read);
}

static bool is_sound_gap(const struct saved_gap *gap)
{
	return gap->cpu < DECODER_CPUS && is_time(gap->from_ts) && is_time(gap->to_ts) &&
	       (is_count(gap->events) || gap->events == UNKNOWN_COUNT);
}

static int resume_cursor(struct cursor *c, const struct saved_cursor *from, struct error *err)
{
	if (!is_sound_cursor(from))
		return fail(err, EBADMSG, "the spool's checkpoint is damaged: counts of cpu %d",
			    c->cpu);
	c->taken = from->taken;
	c->row.read = from->read;
	c->row.bytes = from->bytes;
	c->row.first_ts = from->first_ts;
	c->row.last_ts = from->last_ts;
	c->before = from->before;
	c->before_unknown = from->before_unknown;
	return spool_seek(c->spool, from->place + from->place_in_file, err);
}

int unspool_resume(struct unspool *u, const struct checkpoint *checkpoint, struct error *err)
{
	const uint64_t *words = checkpoint->words;
	const struct saved_cursor *from = saved_cursors(checkpoint);
	int ret = 0;

	if (!is_sound(checkpoint))
		return fail(err, EBADMSG, "the spool's checkpoint is damaged");
	/* A CPU that has only a spool came online after the checkpoint. */
	for (struct cursor *c = u->cursors; c < u->cursors + u->nr_cpus; c++) {
		if (from == saved_cursors(checkpoint) + words[HEAD_CURSORS] ||
		    from->cpu != (uint64_t)c->cpu)
			continue;
		ret = resume_cursor(c, from++, err);
		if (ret)
			return ret;
	}
	if (from != saved_cursors(checkpoint) + words[HEAD_CURSORS])
		return fail(err, EBADMSG, "the spool has no file of cpu %llu",
			    (unsigned long long)from->cpu);
	for (uint64_t i = 0; i < words[HEAD_GAPS] && !ret; i++) {
		const struct saved_gap *gap = &saved_gaps(checkpoint)[i];

		if (!is_sound_gap(gap))
			return fail(err, EBADMSG, "the spool's checkpoint is damaged: gap %llu",
				    (unsigned long long)i);
		ret = source_lose(
			&u->source,
			(struct gap){(int)gap->cpu, gap->from_ts, gap->to_ts, gap->events}, err);
	}
	if (ret)
		return ret;
	if (!decoder_restore(u->source.decoder, words + checkpoint->nr - words[HEAD_DECODER],
			     words[HEAD_DECODER]))
		return fail(err, EBADMSG, "the spool's checkpoint does not fit its formats");
	return 0;
}

// SPDX-License-Identifier: Apache-2.0
/* Texts of pagetape's BPF programs, for their form see input/printed_text.h, to rows. */
#include "decode_internal.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((int)STAMPED_REFILL == STAMP_KIND_REFILL && (int)STAMPED_DRAIN == STAMP_KIND_DRAIN &&
		       (int)STAMPED_REMOTE_DRAIN == STAMP_KIND_REMOTE_DRAIN &&
		       (int)NR_STAMPED == NR_STAMP_KIND,
	       "schemas/stamp.toml has the kinds of input/printed_text.h");

enum { MAX_TEXT = 192 };

/* The text after a word and a blank, or NULL. */
static const char *after(const char *text, const char *word)
{
	size_t length = strlen(word);

	return !strncmp(text, word, length) && text[length] == ' ' ? text + length + 1 : NULL;
}

/* Exactly `nr` hexadecimal numbers, with a blank between two and a dot at the end. */
static bool read_words(const char *text, uint64_t *word, int nr)
{
	for (int i = 0; i < nr; i++) {
		size_t digits = strspn(text, "0123456789abcdef");

		if (!digits || digits > 16)
			return false;
		word[i] = strtoull(text, NULL, 16);
		text += digits;
		if (*text++ != (i + 1 < nr ? ' ' : '.'))
			return false;
	}
	return !*text;
}

static bool is_stamp(const uint64_t word[STAMP_WORDS])
{
	return (word[0] & 0xff) < NR_STAMP_KIND && (word[0] >> 8 & 0xff) < NR_ZONE;
}

enum printed_text decode_printed(const struct decoder *d, const struct format *f,
				 const uint8_t *record, int size, struct printed *out)
{
	uint64_t loc = load(d, record, &f->text), word[2];
	unsigned at = loc & 0xffff, length = loc >> 16 & 0xffff;
	const char *rest, *values;
	char text[MAX_TEXT];

	if (at + length > (unsigned)size || !length)
		return PRINTED_DAMAGED;
	length = length < MAX_TEXT ? length : MAX_TEXT; /* ours are shorter */
	memcpy(text, record + at, length);
	text[length - 1] = '\0';
	rest = after(text, "pagetape");
	if (!rest)
		return PRINTED_FOREIGN;
	rest = strchr(rest, ' ');
	if (rest && (values = after(rest + 1, "free")) && read_words(values, word, 2) &&
	    word[1] < 64) {
		out->pfn = word[0];
		out->order = (uint32_t)word[1];
		return PRINTED_FREE;
	}
	if (rest && (values = after(rest + 1, "stamp")) &&
	    read_words(values, out->word, STAMP_WORDS) && is_stamp(out->word))
		return PRINTED_STAMP;
	if (rest && (values = after(rest + 1, "heads")) &&
	    read_words(values, out->word, HEADS_WORDS))
		return PRINTED_HEADS;
	return PRINTED_DAMAGED;
}

/* The values of the PCP, from words 1 to 3. */
static void set_pcp(struct stamp_columns *to, size_t i, const uint64_t word[STAMP_WORDS],
		    uint32_t bits)
{
	SET_VALUE(to, count, i, (uint32_t)(word[1] >> 32));
	SET_VALUE(to, high, i, (uint32_t)word[1]);
	SET_VALUE(to, batch, i, (uint32_t)(word[3] >> 32));
	if (bits & STAMP_HAS_HIGH_MIN) {
		SET_VALUE(to, high_min, i, (uint32_t)(word[2] >> 32));
		SET_VALUE(to, high_max, i, (uint32_t)word[2]);
		SET_VALUE(to, free_count, i, (uint16_t)(word[3] >> 16));
		SET_VALUE(to, alloc_factor, i, (uint8_t)(word[3] >> 8));
		SET_VALUE(to, pcp_flags, i, (uint8_t)word[3]);
	}
	if (bits & STAMP_HAS_FREE_FACTOR)
		SET_VALUE(to, free_factor, i, (uint16_t)(word[3] >> 16));
}

bool decode_add_stamp(struct decoder *d, const struct format *f, int cpu, uint64_t ts,
		      const uint8_t *record, const struct printed *p)
{
	struct batch *batch = d->rotations[STAMP].filling;
	struct stamp_columns *to = (struct stamp_columns *)batch->slots;
	const uint64_t *word = p->word;
	uint32_t bits = (uint32_t)(word[0] >> 32);
	size_t i = batch->nr;

	if (i == batch->capacity)
		return false;
	to->ts[i] = ts;
	to->cpu[i] = (uint16_t)cpu;
	to->pid[i] = (int32_t)load(d, record, &f->pid);
	/* The program ran with preemption off, not the task. */
	to->flags[i] = canonical_context(&d->canonical, (uint8_t)load(d, record, &f->flags), 0);
	to->at[i] = d->nr_events;
	to->kind[i] = (uint8_t)word[0];
	to->node[i] = (uint16_t)(word[0] >> 16);
	to->zone[i] = (uint8_t)(word[0] >> 8);
	if (bits & STAMP_PCP)
		set_pcp(to, i, word, bits);
	if (bits & STAMP_HAS_BELOW_HIGH)
		SET_VALUE(to, below_high, i, !!(bits & STAMP_BELOW_HIGH));
	to->reclaim_active[i] = !!(bits & STAMP_RECLAIM_ACTIVE);
	to->boosted_watermark[i] = !!(bits & STAMP_BOOSTED_WATERMARK);
	to->free[i] = (int64_t)word[4] >> 8;
	to->vm_stat_diff[i] = (int8_t)word[4];
	to->boost[i] = (uint32_t)(word[5] >> 32);
	to->wmark_min[i] = (uint32_t)word[5];
	to->wmark_low[i] = (uint32_t)(word[6] >> 32);
	to->wmark_high[i] = (uint32_t)word[6];
	see_pid(d, to->pid[i]);
	batch->nr = i + 1;
	return true;
}

bool decode_add_heads(struct decoder *d, const struct format *f, int cpu, uint64_t ts,
		      const uint8_t *record, const struct printed *p)
{
	struct batch *batch = d->rotations[LIST_HEAD].filling;
	struct list_head_columns *to = (struct list_head_columns *)batch->slots;
	size_t i = batch->nr;

	for (; d->next_head < 2 * HEADS_WORDS && i < batch->capacity; d->next_head++) {
		uint64_t pair = p->word[d->next_head / 2];
		uint32_t pfn = (uint32_t)(d->next_head % 2 ? pair >> 32 : pair);

		if (pfn == UINT32_MAX)
			continue;
		to->ts[i] = ts;
		to->cpu[i] = (uint16_t)cpu;
		to->pid[i] = (int32_t)load(d, record, &f->pid);
		to->at[i] = d->nr_events;
		to->page_order[i] = (uint8_t)d->next_head;
		to->pfn[i++] = pfn;
	}
	batch->nr = i;
	if (d->next_head < 2 * HEADS_WORDS)
		return false;
	d->next_head = 0;
	return true;
}

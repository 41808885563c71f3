// SPDX-License-Identifier: Apache-2.0
#include "dat_stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * libtracecmd exports these for trace-cmd itself, but its public header does not declare
 * them. meson.build checks that they exist.
 */
int tracecmd_set_cursor(struct tracecmd_input *handle, int cpu, size_t offset);
unsigned long long tracecmd_get_cursor(struct tracecmd_input *handle, int cpu);
void *tracecmd_record_page(struct tracecmd_input *handle, struct tep_record *record);
int tracecmd_page_size(struct tracecmd_input *handle);

enum {
	MIN_PAGE = 4096,
	MAX_PAGE = 64 << 20,
	SLACK = 64, /* bytes behind a ring page: kbuffer looks ahead by a few words */
};

bool stream_is_page_size(int size)
{
	return size >= MIN_PAGE && size <= MAX_PAGE && !(size & (size - 1));
}

void stream_close(struct stream *s)
{
	tracecmd_free_record(s->held);
	if (s->kbuf)
		kbuffer_free(s->kbuf);
	free(s->page);
}

static uint64_t page_of(const struct stream *s, const struct tep_record *record)
{
	return record->offset & ~(uint64_t)(s->page_size - 1);
}

/* Copy the page of `first` and load it. False: it is damaged. */
static bool load_page(struct stream *s, struct tep_record *first)
{
	uint64_t offset = page_of(s, first);
	size_t size = s->end - offset < s->page_size ? s->end - offset : s->page_size;

	s->next = offset + s->page_size;
	memcpy(s->page, tracecmd_record_page(s->handle, first), size);
	memset(s->page + size, 0, s->page_size - size);
	return subbuf_is_sound(s->page, s->page_size, s->layout) &&
	       !kbuffer_load_subbuffer(s->kbuf, s->page);
}

/*
 * libtracecmd may load the page at `offset` now. It trusts the page's sizes, so a damaged page
 * leads it to any address behind it.
 */
static void begin_reading(const struct stream *s, uint64_t offset)
{
	if (s->pages->reading)
		*s->pages->reading = (struct dat_page){s->instance, s->cpu, offset};
}

static void end_reading(const struct stream *s)
{
	if (s->pages->reading)
		s->pages->reading->cpu = -1;
}

static bool is_bad(const struct stream *s, uint64_t offset)
{
	for (const struct dat_page *p = s->pages->bad; p < s->pages->bad + s->pages->nr_bad; p++)
		if (p->instance == s->instance && p->cpu == s->cpu && p->offset == offset)
			return true;
	return false;
}

/* Load the page at s->next. False: it is damaged. *first is its first record, NULL if it has none.
 */
static bool read_page(const struct stream *s, struct tep_record **first)
{
	bool loaded;

	*first = NULL;
	if (is_bad(s, s->next))
		return false;
	begin_reading(s, s->next);
	loaded = !tracecmd_set_cursor(s->handle, s->cpu, s->next);
	if (loaded)
		*first = tracecmd_read_data(s->handle, s->cpu);
	end_reading(s);
	return loaded;
}

/* The first record of the page at s->next or of the first later page that has one. */
static struct tep_record *first_record(struct stream *s)
{
	struct tep_record *record;

	for (; s->next < s->end; s->next += s->page_size) {
		if (!read_page(s, &record)) {
			s->damaged = true;
			(*s->bad)++;
		} else if (record) {
			if (record->offset >= s->next && record->offset < s->end)
				return record;
			tracecmd_free_record(record);
			return NULL;
		}
	}
	return NULL;
}

/* Whether the current record ends within its page. */
static bool take_held(struct stream *s)
{
	const char *page = tracecmd_record_page(s->handle, s->held);
	const char *data = s->held->data;

	if (s->held->size < 0 || data < page || data + s->held->size > page + s->page_size) {
		(*s->bad)++;
		return false;
	}
	s->ts = s->held->ts;
	s->data = data;
	s->size = s->held->size;
	s->next = s->held->offset;
	return true;
}

/* Take the kbuffer's current record; false at the end of the page. */
static bool take(struct stream *s)
{
	unsigned long long ts;

	s->data = kbuffer_read_event(s->kbuf, &ts);
	if (!s->data)
		return false;
	s->size = kbuffer_event_size(s->kbuf);
	s->ts = ts + (uint64_t)s->shift;
	return true;
}

/* Go to the first record of the next undamaged page. */
static bool next_page(struct stream *s)
{
	for (;;) {
		struct tep_record *first = first_record(s);

		if (!first)
			return false;
		if (!load_page(s, first) || !take(s)) {
			tracecmd_free_record(first);
			s->damaged = true;
			(*s->bad)++;
			continue;
		}
		s->missed = s->damaged ? -1 : first->missed_events;
		s->damaged = false;
		if (first->ts != s->ts) {
			s->by_record = true;
			s->held = first;
			return take_held(s);
		}
		tracecmd_free_record(first);
		return true;
	}
}

static bool next_record(struct stream *s)
{
	tracecmd_free_record(s->held);
	begin_reading(s, s->next);
	s->held = tracecmd_read_data(s->handle, s->cpu);
	end_reading(s);
	if (!s->held)
		return false;
	s->missed = s->held->missed_events;
	return take_held(s);
}

/* Time does not go back in a ring, and has an end, unless the page header is damaged. */
static void bound_time(struct stream *s, uint64_t before)
{
	s->ts = s->ts < SUBBUF_MAX_TS ? s->ts : SUBBUF_MAX_TS;
	s->ts = s->ts > before ? s->ts : before;
}

bool stream_next(struct stream *s)
{
	uint64_t before = s->ts;
	bool more;

	s->missed = 0;
	if (s->by_record) {
		more = next_record(s);
	} else {
		kbuffer_next_event(s->kbuf, NULL);
		more = take(s) || next_page(s);
	}
	if (more)
		bound_time(s, before);
	return more;
}

/* Whether all records of the first page have the timestamp of the ring but for `shift`. */
static bool constant_shift(struct stream *s, struct tep_record *first)
{
	bool constant = true;
	uint64_t page = page_of(s, first);
	struct tep_record *record = first;
	unsigned long long raw;

	while (record && page_of(s, record) == page && kbuffer_read_event(s->kbuf, &raw)) {
		if (record == first)
			s->shift = (int64_t)(record->ts - raw);
		constant = constant && (int64_t)(record->ts - raw) == s->shift;
		if (record != first)
			tracecmd_free_record(record);
		/* Behind the page's last record libtracecmd would load the next page. */
		record = kbuffer_next_event(s->kbuf, NULL) ? tracecmd_read_data(s->handle, s->cpu)
							   : NULL;
	}
	if (record != first)
		tracecmd_free_record(record);
	return constant;
}

int stream_open(struct stream *s, uint64_t bytes, struct error *err)
{
	struct tep_handle *tep = tracecmd_get_tep(s->handle);
	int page_size = tracecmd_page_size(s->handle);
	struct tep_record *first;
	bool constant;

	s->page_size = (size_t)page_size;
	if (!bytes)
		return 0;
	if (!stream_is_page_size(page_size))
		return fail(err, EBADMSG, "ring pages of %d bytes: damaged", page_size);
	s->page = calloc(1, s->page_size + SLACK);
	s->layout = (struct subbuf_layout){
		/* By the kernel's size of long, which may differ from the file's long_size. */
		.header = tep_get_header_page_size(tep) == 4 ? 12 : 16,
		.big_endian = tep_is_file_bigendian(tep),
	};
	s->kbuf = kbuffer_alloc(s->layout.header == 12 ? KBUFFER_LSIZE_4 : KBUFFER_LSIZE_8,
				s->layout.big_endian ? KBUFFER_ENDIAN_BIG : KBUFFER_ENDIAN_LITTLE);
	if (!s->page || !s->kbuf)
		return fail(err, ENOMEM, "no memory for a ring page");

	s->next = tracecmd_get_cursor(s->handle, s->cpu) & ~(uint64_t)(page_size - 1);
	s->end = s->next + bytes;
	first = first_record(s);
	if (!first)
		return 0;
	constant = load_page(s, first) && constant_shift(s, first);
	s->next = page_of(s, first);
	tracecmd_free_record(first);
	if (!constant)
		s->shift = INT64_MIN; /* agrees with no record, so next_page goes by record */
	if (!next_page(s))
		return 0;
	bound_time(s, 0);
	return 1;
}

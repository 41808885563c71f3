// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_ring.c - sub-buffers of a ring: the layout of the machine, then one sub-buffer to the end.
 *
 * A sub-buffer that is sound has all its records within it; its records are decoded.
 */
#include "decode/decode.h"
#include "decode/tasks.h"
#include "fuzz_file.h"
#include "fuzz_formats.h"
#include "ring/subbuf.h"

#include <assert.h>
#include <kbuffer.h>

enum { ROWS = 64, LAYOUTS = 4, SLACK = 64 };

static const struct decoder_names names;

/* A reader of one layout: bit 0: big-endian, bit 1: longs of 4 bytes. */
struct machine {
	struct subbuf_layout layout;
	struct kbuffer *kbuf;
	struct tep_handle *tep;
	struct decoder *decoder;
	struct tasks *tasks;
};

static void make(struct machine *m, int number)
{
	bool big = number & 1, small = number & 2;
	struct error err;

	m->layout = (struct subbuf_layout){small ? 12 : 16, big};
	m->kbuf = kbuffer_alloc(small ? KBUFFER_LSIZE_4 : KBUFFER_LSIZE_8,
				big ? KBUFFER_ENDIAN_BIG : KBUFFER_ENDIAN_LITTLE);
	m->tep = tep_alloc();
	tep_set_loglevel(TEP_LOG_NONE);
	tep_set_long_size(m->tep, small ? 4 : 8);
	tep_set_file_bigendian(m->tep, big ? TEP_BIG_ENDIAN : TEP_LITTLE_ENDIAN);
	for (size_t i = 0; i < sizeof(fuzz_formats) / sizeof(fuzz_formats[0]); i++)
		tep_parse_event(m->tep, fuzz_formats[i].text, strlen(fuzz_formats[i].text),
				fuzz_formats[i].system);
	if (decoder_new(&m->decoder, m->tep, &names, ROWS, &err) ||
	    tasks_new(&m->tasks, m->tep, &err)) {
		fprintf(stderr, "%s\n", err.msg);
		exit(1);
	}
}

static void add(struct machine *m, uint64_t ts, const void *record, int size)
{
	/* A copy of its own size, for the address sanitizer. */
	void *alone = malloc((size_t)size ?: 1);

	memcpy(alone, record, (size_t)size);
	while (!decoder_add(m->decoder, 0, ts, alone, size)) {
		int ret;

		decoder_flush(m->decoder, false, &ret);
		assert(!ret);
	}
	tasks_see(m->tasks, alone, size);
	free(alone);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct machine machines[LAYOUTS];
	struct machine *m = &machines[size ? data[0] % LAYOUTS : 0];
	size_t bytes = size ? size - 1 : 0;
	unsigned long long ts;
	char *subbuf;

	if (bytes < sizeof(struct subbuf))
		return 0;
	if (!m->kbuf)
		make(m, (int)(m - machines));
	subbuf = calloc(1, bytes + SLACK);
	memcpy(subbuf, data + 1, bytes);
	if (subbuf_is_sound(subbuf, bytes, m->layout) && !kbuffer_load_subbuffer(m->kbuf, subbuf)) {
		const char *record = kbuffer_read_event(m->kbuf, &ts);

		for (; record; record = kbuffer_next_event(m->kbuf, &ts)) {
			int length = kbuffer_event_size(m->kbuf);

			assert(length >= 0 && record >= subbuf &&
			       record + length <= subbuf + bytes);
			add(m, ts, record, length);
		}
	}
	free(subbuf);
	return 0;
}

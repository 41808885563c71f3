// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_formats.c - the formats of a spool, then records of zeros and of counted bytes.
 *
 * A child process parses them first, because libtraceevent may fall, as for recovery_open. What
 * uses the parsed formats must not fall.
 */
#include "decode/decode.h"
#include "decode/formats.h"
#include "decode/tasks.h"
#include "fuzz_file.h"
#include "input/probe.h"

enum { MAX_RECORD = 96, ROWS = 64 };

static const struct decoder_names names;

/* libtraceevent leaks with damaged formats, and its frames have no names to go by. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}

/* Records of every type that the formats describe, each in memory of its own size. */
static void read_records(struct tep_handle *tep, struct decoder *d, struct tasks *tasks)
{
	int nr = tep_get_events_count(tep);

	for (int i = 0; i < 2 * nr; i++) {
		const struct tep_event *event = tep_get_event(tep, i / 2);
		uint16_t type = (uint16_t)event->id;

		for (int size = 0; size < MAX_RECORD; size += 4) {
			uint8_t *record = calloc(1, (size_t)size + 1);

			for (int at = 0; i % 2 && at < size; at++)
				record[at] = (uint8_t)(at * 3);
			if (size >= 2)
				memcpy(record, &type, 2);
			record = realloc(record, (size_t)size ?: 1);
			while (!decoder_add(d, size, (uint64_t)size, record, size)) {
				int ret;

				decoder_flush(d, false, &ret);
			}
			tasks_see(tasks, record, size);
			free(record);
		}
	}
}

static struct tep_handle *parse(struct error *err)
{
	struct tep_handle *tep = tep_alloc();
	struct kernel_addresses addresses;

	tep_set_loglevel(TEP_LOG_NONE);
	tep_set_long_size(tep, sizeof(long));
	if (!formats_read(fuzz_path("formats"), tep, &addresses, err))
		return tep;
	tep_free(tep);
	return NULL;
}

static int try_to_parse(void *arg, struct error *err)
{
	(void)arg;
	tep_free(parse(err));
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct probe file = {"formats", "libtraceevent", size, try_to_parse, NULL};
	struct tep_handle *tep;
	struct decoder *decoder;
	struct tasks *tasks;
	struct error err;

	if (!fuzz_dir[0]) {
		fuzz_make_dir("fuzz_formats");
		fuzz_let_children_fall();
	}
	fuzz_write("formats", data, size);
	tep = probe(&file, &err) ? NULL : parse(&err);
	if (tep && !decoder_new(&decoder, tep, &names, ROWS, &err)) {
		if (!tasks_new(&tasks, tep, &err))
			read_records(tep, decoder, tasks);
		tasks_free(tasks);
		decoder_free(decoder);
	}
	tep_free(tep);
	return 0;
}

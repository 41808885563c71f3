// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_dat.c - a trace.dat, through all of dat_open: a child process tries libtracecmd first.
 *
 * The input is the file, with each long run of zeros shortened to one marked byte (see inflate), so
 * that inputs stay small although ring pages are not.
 */
#include "dat.h"
#include "fuzz_file.h"
#include "tables.h"

#include <assert.h>

enum { MAX_FILE = 1 << 20, RUN = 0xfe, RUN_BYTES = 64 };

static const struct decoder_names names;

/* libtracecmd leaks with damaged files, and its frames have no names to go by. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}

/* The bytes RUN, n stand for n * RUN_BYTES zeros; RUN, 0 for one byte RUN. */
static size_t inflate(uint8_t *to, const uint8_t *data, size_t size)
{
	size_t nr = 0, zeros;

	for (size_t i = 0; i < size && nr < MAX_FILE; i++) {
		zeros = 0;
		if (data[i] != RUN || i + 1 == size || !data[i + 1])
			to[nr++] = data[i];
		else
			zeros = data[i + 1] * (size_t)RUN_BYTES;
		i += data[i] == RUN;
		zeros = zeros < MAX_FILE - nr ? zeros : MAX_FILE - nr;
		memset(to + nr, 0, zeros);
		nr += zeros;
	}
	return nr;
}

static void read_all(struct dat *d)
{
	struct source *s = dat_source(d);
	const struct dat_facts *facts = dat_facts(d);
	uint64_t last = 0;
	struct item item;
	struct error err;

	while (source_read(s, 1000, &item, &err) == 1) {
		if (!strcmp(item.table->name, "event")) {
			struct event_columns columns;
			size_t nr;

			if (table_borrow(item.table, &item.array, &columns, &nr, &err))
				abort();
			for (size_t i = 0; i < nr; last = columns.ts[i++])
				assert(columns.ts[i] >= last);
		}
		item.array.release(&item.array);
	}
	for (size_t i = 0; i < s->nr_gaps; i++)
		assert(s->gaps[i].cpu >= 0 && s->gaps[i].cpu < DECODER_CPUS);
	assert(facts->cpus >= 0 && facts->page_size >= 0 && dat_kallsyms(d));
	for (int i = 0; i < facts->nr_instances; i++)
		assert(facts->instances[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t file[MAX_FILE];
	struct dat *d;
	struct error err;

	if (!fuzz_dir[0]) {
		fuzz_make_dir("fuzz_dat");
		fuzz_let_children_fall();
	}
	fuzz_write("trace.dat", file, inflate(file, data, size));
	if (!dat_open(&d, fuzz_path("trace.dat"), &names, &err)) {
		read_all(d);
		dat_close(d);
	}
	return 0;
}

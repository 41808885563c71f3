// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_dat.c - a trace.dat, through all of dat.c: a child process tries first whether libtracecmd
 * survives its ring pages.
 *
 * The input is the file, with each long run of zeros shortened to one marked byte (see inflate), so
 * that inputs stay small although ring pages are not.
 */
#include "decode/dat.h"
#include "fuzz_file.h"
#include "fuzz_source.h"
#include "input/probe.h"
#include "tables.h"

#include <assert.h>
#include <sys/mman.h>

enum { MAX_FILE = 1 << 20, RUN = 0xfe, RUN_BYTES = 64 };

static const struct decoder_names names;
static struct dat_pages pages;

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
	const struct dat_facts *facts = dat_facts(d);

	fuzz_read(dat_source(d));
	assert(facts->cpus >= 0 && facts->page_size >= 0 && dat_kallsyms(d));
	for (int i = 0; i < facts->nr_instances; i++)
		assert(facts->instances[i]);
}

static int open_and_read(void *path, struct error *err)
{
	struct dat *d;
	int ret = dat_open(&d, path, &names, &pages, err);

	if (!ret) {
		read_all(d);
		dat_close(d);
	}
	return ret;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t file[MAX_FILE];
	struct probe whole;
	const char *path;
	struct error err;

	if (!fuzz_dir[0]) {
		fuzz_make_dir("fuzz_dat");
		fuzz_let_children_fall();
		pages.reading = mmap(NULL, sizeof(*pages.reading), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		assert(pages.reading != MAP_FAILED);
	}
	size = inflate(file, data, size);
	fuzz_write("trace.dat", file, size);
	path = fuzz_path("trace.dat");
	whole = (struct probe){path, "libtracecmd", size, open_and_read, (void *)path};
	pages.reading->cpu = -1;
	probe(&whole, &err);
	if (pages.reading->cpu < 0) /* what else ends the child is ours, and shall end this, too */
		open_and_read((void *)path, &err);
	return 0;
}

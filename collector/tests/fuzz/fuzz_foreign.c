// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_foreign.c - the trace file of another tool, of any format: both passes of foreign.c.
 *
 * No library reads the file but libtraceevent, which gets the formats that a perf.data contains.
 */
#include "foreign/foreign.h"
#include "fuzz_file.h"
#include "fuzz_source.h"
#include "tables.h"

#include <assert.h>

static const struct gfp_group groups[] = {
	{"GFP_KERNEL", "__GFP_DIRECT_RECLAIM|__GFP_KSWAPD_RECLAIM|__GFP_IO|__GFP_FS"},
};
static const struct foreign_names names = {
	.groups = groups,
	.nr_groups = 1,
	.gfp_bits = {[6] = "__GFP_IO", [7] = "__GFP_FS"},
};

/* libtraceevent leaks with damaged formats, and its frames have no names to go by. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}

static void read_all(struct foreign *f)
{
	fuzz_read(foreign_source(f));
	assert(foreign_facts(f)->cpus >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct foreign *f;
	struct error err;

	if (!fuzz_dir[0]) {
		fuzz_make_dir("fuzz_foreign");
		fuzz_let_children_fall();
	}
	fuzz_write("trace", data, size);
	if (foreign_open(&f, fuzz_path("trace"), &err))
		return 0;
	if (!foreign_begin(f, &names, &err))
		read_all(f);
	foreign_close(f);
	return 0;
}

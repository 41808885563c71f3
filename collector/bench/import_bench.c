// SPDX-License-Identifier: Apache-2.0
/*
 * import_bench.c - events per second of CPU time that both passes over a trace file take:
 *
 *	import_bench FILE...
 *
 * The tape is not written. docs/recording.md has the rates.
 */
#include "foreign/foreign.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static double cpu_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int read_all(struct foreign *f, uint64_t *rows, struct error *err)
{
	struct item item;
	int ret;

	*rows = 0;
	while ((ret = source_read(foreign_source(f), 1000, &item, err)) == 1 || ret == -EAGAIN) {
		if (ret != 1)
			continue;
		*rows += (uint64_t)item.array.length;
		item.array.release(&item.array);
	}
	return ret;
}

static int measure(const char *path)
{
	static const struct foreign_names names;
	double began = cpu_s(), found;
	struct foreign *f;
	struct error err;
	uint64_t rows = 0;
	int ret = foreign_open(&f, path, &err);

	found = cpu_s();
	if (!ret) {
		ret = foreign_begin(f, &names, &err);
		ret = ret ?: read_all(f, &rows, &err);
		foreign_close(f);
	}
	if (ret)
		printf("%s: %s\n", path, err.msg);
	else
		printf("%s: %llu events, %.2f s in the first pass, %.2f s in all: %.2f M/s\n", path,
		       (unsigned long long)rows, found - began, cpu_s() - began,
		       (double)rows / (cpu_s() - began) / 1e6);
	return ret;
}

int main(int argc, char **argv)
{
	int ret = 0;

	for (int i = 1; i < argc; i++)
		ret |= measure(argv[i]);
	return ret != 0;
}

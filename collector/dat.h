/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dat.h - a trace.dat file as a source of batches.
 *
 * libtracecmd knows the file (versions 6 and 7, compression, instances, options);
 * this reads the ring pages it maps, merges all CPUs of all instances into one
 * order and feeds the decoder in a thread of its own.
 *
 * A record is in the tape as often as it is in the file: where a tracepoint was
 * enabled in two instances, its events come twice, and `dat_facts.instances`
 * tells. The order is (ts, cpu, instance as in the file, position in the ring).
 */
#pragma once

#include "source.h"

struct dat;

/* What the file says of the traced machine; NULL or 0 where it does not. */
struct dat_facts {
	const char *kernel; /* release, as uname -r */
	const char *host, *arch;
	const char *clock; /* trace clock */
	int cpus, page_size;
	int nr_instances;
	const char *const *instances; /* "" is the top one */
};

/*
 * Open `path` and start decoding. -ENOENT and the like, -EBADMSG (not a trace.dat,
 * damaged or truncated; nothing is decoded then), -EINVAL (from the decoder),
 * -ENOMEM. A file that makes libtracecmd crash or hang is refused as damaged.
 */
int dat_open(struct dat **out, const char *path, const struct decoder_names *names,
	     struct error *err);

/* Stops decoding wherever it is. */
void dat_close(struct dat *d);

struct source *dat_source(struct dat *d);
const struct dat_facts *dat_facts(const struct dat *d);

/* /proc/kallsyms of the traced machine as it is in the file, or "". */
const char *dat_kallsyms(const struct dat *d);

/* What had to be left out as damaged: records, and whole ring pages (also in `lost`). */
uint64_t dat_bad_records(const struct dat *d);

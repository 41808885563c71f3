/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dat.h - a trace.dat file as a source of batches.
 *
 * libtracecmd parses the file (versions 6 and 7, compression, instances, options). This
 * module reads the ring pages that it maps, merges all CPUs of all instances into one order
 * and feeds the decoder in a thread of its own.
 *
 * No duplicate is removed: a tracepoint enabled in two instances gives each event twice, see
 * `dat_facts.instances`. The order is (ts, cpu, instance as in the file, position in the ring).
 */
#pragma once

#include "dat_stream.h"
#include "source.h"

struct dat;

/* Facts on the traced machine; NULL or 0 if the file lacks them. */
struct dat_facts {
	const char *kernel; /* release, as uname -r */
	const char *host, *arch;
	const char *clock;   /* trace clock */
	int cpus, page_size; /* page_size: of the ring; 0 if it is none */
	uint64_t began;      /* wall clock of the first event: see wall_clock.h */
	int nr_instances;
	const char *const *instances; /* "" is the top one */
};

/*
 * Open `path` and start decoding. -ENOENT and the like, -EBADMSG (not a trace.dat,
 * damaged or truncated; nothing is decoded then), -EINVAL (from the decoder),
 * -ENOMEM. A child process tries this first: a file that makes libtracecmd crash (-EFAULT) or
 * run too long (-ETIME) there is refused.
 *
 * libtracecmd may still crash, then and later, by a damaged ring page: that can depend on what lies
 * behind the page in memory. Use it in a process that may end, as dat_file.py does.
 *
 * pages->bad is copied; pages->reading lives as long as the result.
 */
int dat_open(struct dat **out, const char *path, const struct decoder_names *names,
	     const struct dat_pages *pages, struct error *err);

/* Stop decoding at once. */
void dat_close(struct dat *d);

struct source *dat_source(struct dat *d);
const struct dat_facts *dat_facts(const struct dat *d);

/* /proc/kallsyms of the traced machine from the file, or "". */
const char *dat_kallsyms(const struct dat *d);

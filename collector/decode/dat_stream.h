/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dat_stream.h - the records of one CPU in one instance of a trace.dat, oldest first.
 *
 * libtracecmd maps the ring pages; this reads their records with kbuffer and leaves out
 * pages that are damaged.
 */
#pragma once

#include "ring/subbuf.h"
#include "source.h"

#include <kbuffer.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <trace-cmd.h>

/* A ring page of a file. */
struct dat_page {
	int32_t instance, cpu; /* instance: as in the file, from 0; cpu -1: no page */
	uint64_t offset;       /* in the file, or where libtracecmd unpacks a compressed one */
};

/* What a process that reads a file and another one exchange. */
struct dat_pages {
	struct dat_page *reading;   /* shared memory: the page that libtracecmd loads; or NULL */
	const struct dat_page *bad; /* pages to leave out as damaged */
	size_t nr_bad;
};

/* The ring of one CPU in one instance. */
struct stream {
	/* Set by the owner. */
	struct tracecmd_input *handle;
	int instance, cpu;
	const struct dat_pages *pages;
	uint64_t *bad; /* counts the pages left out */

	size_t page_size;
	uint64_t next, end; /* file offsets: the next page to load, and the end of the ring */
	char *page;         /* a copy of the current page, with SLACK behind it */
	struct kbuffer *kbuf;
	struct subbuf_layout layout;
	int64_t shift; /* libtracecmd adds this to a timestamp */

	/*
	 * libtracecmd converts the timestamps by more than an addition (TSC to ns, guest to host):
	 * take every record from it, which is slower.
	 */
	bool by_record;
	struct tep_record *held; /* the current record, if by_record */

	/* The current record. */
	uint64_t ts;
	const void *data;
	int size;
	long long missed; /* events lost just before it; -1: some */

	bool damaged; /* pages left out since the last record */
	struct ring *ring;
};

/*
 * Open the ring, `bytes` long. Returns 1 at the first record, 0 for a ring without
 * records. -EBADMSG (damaged), -ENOMEM. Call stream_close in any case.
 */
int stream_open(struct stream *s, uint64_t bytes, struct error *err);

/* Go to the next record; false at the end. Fills in ts, data, size and missed. */
bool stream_next(struct stream *s);

/* Whether a ring may have pages of `size` bytes. */
bool stream_is_page_size(int size);

void stream_close(struct stream *s);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unspool.h - merges the spools of all CPUs in order and decodes them.
 *
 *   spool --.
 *   spool --+-> merge -> decoder -> source
 *   spool --'
 *
 * The spools belong to a running recording (record.h) or a past one (recover.h). The owner sets up
 * one cursor for each CPU and a thread, unspool_run.
 *
 * During a recording the thread runs only on an otherwise idle CPU, so the recorded load
 * comes first; undecoded data waits in the spools. Decoding takes CPU time from the load only if
 * the spools fill up: unspool_keep_pace.
 */
#pragma once

#include "decode/merge.h"
#include "decode/source.h"
#include "decode/tasks.h"
#include "ring/instance.h"
#include "spool/reader.h"
#include "spool/spool.h"
#include "spool/spool_rest.h"

#include <kbuffer.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* One CPU's place in the merge. */
struct cursor {
	int cpu;
	struct spool *spool;
	struct reader *reader;   /* fills the spool; NULL for a past recording */
	struct spool_rest *rest; /* follows the spool of a killed recorder; NULL: none */
	struct kbuffer *kbuf;
	const void *record; /* the next one, at ts; NULL: its spool was empty */
	uint64_t ts;
	uint64_t taken;    /* records before it in its sub-buffer */
	size_t popped;     /* sub-buffers since the last flush */
	uint64_t missed;   /* events lost before it, or UNKNOWN_COUNT */
	uint64_t complete; /* at the last look into the spool */
	bool cut;          /* of a past recording: the end of the spool is missing */
	struct ring row;   /* of this segment, like the next */

	/* Losses and read events of the ring that earlier segments reported. */
	struct ring_stats before;
	bool before_unknown; /* one of their gaps had an unknown size: `before` may be ahead */
};

struct unspool {
	struct source source;
	struct tasks *tasks;
	struct cursor *cursors; /* by ascending CPU */
	int nr_cpus;
	struct merge merge;

	/*
	 * Set by the owner: reads the kernel's counts of a ring, up to now or to the end, to
	 * account for losses on `max_cpus` CPUs. -ENODATA: unknown.
	 */
	int (*ring_stats)(struct unspool *u, int cpu, struct ring_stats *out, struct error *err);
	int max_cpus;
	int bell;             /* an eventfd: unspool_wake */
	bool checkpoints;     /* hand them over; else release decoded sub-buffers at once */
	uint64_t hurry_bytes; /* bytes in files at which decoding takes CPU time from the load */

	/* Shared with the owner's threads. */
	atomic_bool urgent; /* the thread runs at normal priority */
	atomic_bool cancelled;
	/*
	 * Events up to `limit` are merged: all (NO_LIMIT), none (0, on hold), or up to a cut. The
	 * thread lifts the limit when it reaches a cut.
	 */
	_Atomic uint64_t limit;

	atomic_bool hurried; /* of unspool_keep_pace */

	/* The thread's own. */
	uint64_t until;     /* no ring will give an older event */
	uint64_t flush_due; /* trace clock */
	uint64_t unflushed; /* records since the last flush */
};

#define NO_LIMIT UINT64_MAX

void unspool_init(struct unspool *u);

/* Frees the spools. The thread and the readers must have ended; this joins none. */
void unspool_destroy(struct unspool *u);

/* A cursor for one more CPU, higher than those before; `instance` is not copied. -ENOMEM. */
int unspool_add(struct unspool *u, int cpu, const char *instance, struct error *err);

/* All CPUs were added: make room for the merge. -ENOMEM. */
int unspool_ready(struct unspool *u, struct error *err);

/*
 * The thread's function, on a struct unspool: ends when all spools are at their end, with
 * source_end.
 */
void *unspool_run(void *u);

/*
 * The spools are that full: let `thread`, which runs unspool_run, take CPU time from the load while
 * their memory is more than half full (the disk is slower than the rings) or their files have more
 * than hurry_bytes. Always from the same thread.
 */
void unspool_keep_pace(struct unspool *u, pthread_t thread, const struct spool_use *use);

/* The load has ended: raise the priority of `thread`. */
void unspool_urge(struct unspool *u, pthread_t thread);

/* Look into the spools now. A thread that finds nothing looks once a second. */
void unspool_wake(struct unspool *u);

/* End now and drop the events not yet merged. */
void unspool_cancel(struct unspool *u);

/* The caller has stored the rows before this checkpoint: free the space before it. */
void unspool_release(struct unspool *u, const struct checkpoint *checkpoint);

/* Start at a checkpoint instead of the beginning. -EBADMSG if it is damaged or of another
 * recording. */
int unspool_resume(struct unspool *u, const struct checkpoint *checkpoint, struct error *err);

/* Merged share of the sub-buffers in the spools, 0 to 1. */
double unspool_progress(const struct unspool *u);

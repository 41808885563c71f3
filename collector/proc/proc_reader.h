/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proc_reader.h - read files of /proc at regular times, also when memory is short.
 *
 * One thread reads all files, each between two stamps of CLOCK_MONOTONIC (the trace clock of a
 * recording), and puts the texts into a queue. Another thread takes them from there and may be
 * late.
 *
 * Memory pressure must not make the reading thread sleep. Its stack, its buffers and its code are
 * locked in memory, the files stay open with the kernel's buffers grown, and nothing is allocated
 * after the start. Three rights help further:
 *
 *	PROC_READER_LOCKED    mlock() of all of that
 *	PROC_READER_REALTIME  SCHED_FIFO: no wait for a CPU, and a part of the reserve below the
 *	                      min watermark for what a read allocates (gfp_to_alloc_flags of
 *	                      mm/page_alloc.c: ALLOC_HARDER, since 6.4 ALLOC_MIN_RESERVE)
 *	PROC_READER_NOIO      PR_SET_IO_FLUSHER (5.6): its reclaim starts no I/O and no file system
 *
 * Without them it reads as well, and may be late. A reading that is missing is counted by its
 * cause, in the next one.
 *
 * Sysctls take a microsecond each. They are read at every period, also where the share of CPU time
 * allows no whole reading, and soon after each write to them that inotify reports: one through
 * another mount of /proc, or by the kernel itself, shows at the next period.
 */
#pragma once

#include "error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_reader;

enum proc_reader_guard {
	PROC_READER_LOCKED = 1,
	PROC_READER_REALTIME = 2,
	PROC_READER_NOIO = 4,
};

enum proc_missed {
	PROC_MISSED_LATE,    /* the thread slept beyond the time of the reading */
	PROC_MISSED_FULL,    /* no room in the queue */
	PROC_MISSED_THINNED, /* only sysctls were read: the readings cost too much CPU time */
	NR_PROC_MISSED,
};

struct proc_file {
	int fd;        /* the caller's; open until proc_reader_free() */
	uint32_t size; /* bytes that the text may have; a longer one is -EFBIG */
	bool sysctl;   /* the whole text comes with one read() */
};

/* The text of one file. */
struct proc_text {
	uint64_t began, ended; /* right before and after the reading, ns */
	ssize_t length;        /* -errno: no text; -ECANCELED: not of this reading */
	const char *bytes;
};

struct proc_reading {
	uint32_t missed[NR_PROC_MISSED]; /* readings missing right before this one, by cause */
	struct proc_text texts[];        /* of each file, in order */
};

/*
 * A reader of these files, with a queue of `slots` readings, at least 2. It reads only when asked
 * until proc_reader_start(). -ENOMEM, -EAGAIN (no thread).
 */
int proc_reader_new(struct proc_reader **out, const struct proc_file *files, unsigned nr_files,
		    unsigned slots, struct error *err);

/* Stop the thread, and free all. NULL is allowed. */
void proc_reader_free(struct proc_reader *r);

/* The rights that the thread has: bits of enum proc_reader_guard. */
unsigned proc_reader_guards(const struct proc_reader *r);

/*
 * Read every `period_ns` from now on. The readings and what proc_reader_charge() adds take at most
 * `share_ppm` millionths of a CPU in the long run: beyond that, readings are left out.
 */
void proc_reader_start(struct proc_reader *r, uint64_t period_ns, uint32_t share_ppm);

/* CPU time spent on a reading after it was taken. From any thread. */
void proc_reader_charge(struct proc_reader *r, uint64_t ns);

/* While held, it reads only when asked; readings that fall due meanwhile are late. */
void proc_reader_hold(struct proc_reader *r, bool held);

/*
 * Read now, besides the regular times, and return when the reading is in the queue; -ENOBUFS: the
 * queue is full. One thread at a time.
 */
int proc_reader_ask(struct proc_reader *r);

/* Wait until there is a reading, for at most `ms`, or until proc_reader_nudge(). */
void proc_reader_wait(struct proc_reader *r, int ms);
void proc_reader_nudge(struct proc_reader *r);

/*
 * The oldest reading in the queue, valid until proc_reader_drop(); NULL: there is none. One thread
 * at a time.
 */
const struct proc_reading *proc_reader_peek(struct proc_reader *r);
void proc_reader_drop(struct proc_reader *r);

/* When the reading in progress began, ns; 0: none is in progress. */
uint64_t proc_reader_busy_since(struct proc_reader *r);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h - a live recording: every event of every CPU, in order, as batches.
 *
 *   ring buffer -> reader thread -> spool --.
 *      ...one of each per CPU...            +-> merge -> decoder -> source
 *   ring buffer -> reader thread -> spool --'
 *
 * A low-priority thread merges and decodes, see unspool.h. Memory is allocated before the start.
 * Lost events are reported gap by gap.
 *
 * With `keep`, spools outlive a killed recorder: recover.h reads them. The source then gives
 * checkpoints at intervals, and a spool loses only what was released. Spools are bounded. At the
 * bound the readers stop and the rings overwrite their oldest events, which are reported as lost.
 * Reading resumes when there is room. With `defer` nothing is decoded, so a full spool ends the
 * recording.
 *
 * A recording can be cut into segments without losing an event. recorder_hold stops
 * the decoder at the current time. The caller then chooses a later time, and recorder_cut
 * ends the segment after the last event up to that time. See source_next.
 *
 * Besides the events asked for, task:task_newtask, task:task_rename and
 * cgroup:cgroup_attach_task are recorded, for the names and control groups of
 * short-lived threads.
 */
#pragma once

#include "decode/decode.h"
#include "ring/instance.h"
#include "unspool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct recorder;

struct recorder_config {
	const char *const *events; /* "system:event", ends with NULL */
	const char *spool;         /* existing directory for the spools */
	uint64_t spool_max;        /* most bytes of all spools; 0: no bound */
	uint64_t spool_memory;     /* ... and of those in memory; 0: by the machine */
	bool keep;                 /* the spools outlive the recorder, and there are checkpoints */
	bool defer;                /* the spools outlive the recorder, and nothing is decoded */
	struct instance_config instance;
	bool prompt; /* decode soon after the events, with CPU time of the load */
	/* ftrace's filters, each after its event: "system:event", filter, ..., NULL */
	const char *const *filters;
	bool stacks;                /* recorder_add_stacks() will ask for kernel stacks */
	struct decoder_names names; /* vmstat_update is filled in by recorder_new */
};

/*
 * Set up a recording without starting it. Events that this kernel lacks are skipped, see
 * recorder_skipped; a requested page event must exist under one of its names (-ENOENT).
 * Otherwise the errors of instance_new.
 */
int recorder_new(struct recorder **out, const struct recorder_config *config, struct error *err);

/*
 * Also record the kernel stack of each "system:event" that passes ftrace's `filter`; "": of each
 * one. Before the start; the config has `stacks`.
 */
int recorder_add_stacks(struct recorder *r, const char *event, const char *filter,
			struct error *err);

/*
 * Abort a recording: unread rows are lost, and source_read returns -ECANCELED from then on.
 * A second call does nothing.
 */
void recorder_cancel(struct recorder *r);

/*
 * Remove the instance. With `keep` or `defer` the spools remain, with the rest of the rings and the
 * text of recorder_say_ended. Batches already read remain valid.
 */
void recorder_free(struct recorder *r);

/* Call each once, in this order. Stop without start gives a recording without events. */
int recorder_start(struct recorder *r, struct error *err);
int recorder_stop(struct recorder *r, struct error *err);

/*
 * Between start and stop, alternate: hold, then cut at a later time (trace clock, ns). Hold returns
 * -EBUSY until the previous cut is reached.
 */
int recorder_hold(struct recorder *r, struct error *err);
void recorder_cut(struct recorder *r, uint64_t ts);

/* How the recording ended, after the end of the source: "stopped", "spool full" or "disk full". */
const char *recorder_ended(const struct recorder *r);

/* Replace that text, which the spools store. */
void recorder_say_ended(struct recorder *r, const char *how);

/* How another user disturbed the recording, by gravity. */
enum disturbance {
	UNDISTURBED,
	RING_RESIZED, /* goes on: the kernel counts what a smaller ring loses */
	/* From here on, events are missing that nothing counts. */
	TRACING_OFF,
	EVENT_OFF,
	RING_CLEARED,
	CLOCK_CHANGED,
	SUBBUF_CHANGED,
	INSTANCE_REMOVED,
};

struct recorder_look {
	uint64_t events;  /* read, or still in a ring */
	uint64_t lost;    /* overrun, commit overrun and dropped */
	uint64_t waiting; /* bytes that are not decoded yet */
	enum disturbance disturbance;
	char what[128]; /* the event that is off, or the new size */
};

/* Look at the rings and the instance of a started recording: some file reads for each CPU. */
void recorder_look(struct recorder *r, struct recorder_look *out);

/*
 * Its source, valid from recorder_new on; the names of threads, after the end of the source; its
 * progress; and unspool_release of the source's checkpoints.
 */
struct unspool *recorder_unspool(struct recorder *r);

/* Facts, from the start on. */
struct instance *recorder_instance(struct recorder *r);
int recorder_cpus(const struct recorder *r);
const char *const *recorder_skipped(const struct recorder *r, size_t *nr);

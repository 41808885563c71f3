/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h - a live recording: every event of every CPU, in order, as batches.
 *
 *   ring buffer -> reader thread -> spool --.
 *      ...one of each per CPU...            +-> merge -> decoder -> source
 *   ring buffer -> reader thread -> spool --'
 *
 * Merging and decoding have a thread that gives way to the load, see unspool.h. Memory
 * is bounded by what is set up before the start. What the kernel lost is told gap by gap.
 *
 * Spools that are kept outlive a recorder that is killed: recover.h reads them. Then the
 * source gives a checkpoint now and then, and only what was released is gone from them.
 * They are bounded: at the bound the readers stop taking, the rings overwrite their oldest
 * events, which is told as lost, and when there is room again reading goes on. Where
 * nothing is decoded nothing makes room, and the recording ends.
 *
 * A recording can be cut into segments without losing an event. recorder_hold stops
 * the decoder, so that it goes past no moment that is still to come; whoever calls then
 * decides on one, and recorder_cut ends the segment after the last event that is not
 * later. See source_next.
 *
 * Besides the events asked for, task:task_newtask, task:task_rename and
 * cgroup:cgroup_attach_task are recorded, for the names and control groups of
 * short-lived threads.
 */
#pragma once

#include "instance.h"
#include "source.h"
#include "tasks.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct recorder;

struct recorder_config {
	const char *const *events;  /* "system:event", ends with NULL */
	const char *spool;          /* directory of the spools, there at the start */
	uint64_t spool_max;         /* bytes they may take; 0: all there is */
	bool keep;                  /* they are kept, and there are checkpoints */
	bool defer;                 /* they are kept, and nothing is decoded */
	size_t ring_kb;             /* of each CPU; 0: by the machine's memory */
	bool prompt;                /* decode close behind the events, at the load's cost */
	bool stacks;                /* of fallbacks, too: what led to each alloc_extfrag */
	struct decoder_names names; /* vmstat_update is found here */
};

/*
 * Set all up; nothing is recorded yet. Events that this kernel does not have
 * are skipped, see recorder_skipped; but of a page event asked for (under any of
 * its names) there must be one: -ENOENT. Otherwise the errors of instance_new.
 */
int recorder_new(struct recorder **out, const struct recorder_config *config, struct error *err);

/*
 * End a recording that is not wanted any more: what was not read is lost, and
 * source_read says -ECANCELED from then on. A second call does nothing.
 */
void recorder_cancel(struct recorder *r);

/*
 * Remove the instance. Spools that are kept stay, with what a stopped recording still had
 * in its rings and with the words of recorder_say_ended. Batches that were read stay valid.
 */
void recorder_free(struct recorder *r);

/* Each once, in this order. stop without start gives a recording without events. */
int recorder_start(struct recorder *r, struct error *err);
int recorder_stop(struct recorder *r, struct error *err);

/*
 * Between start and stop, in turns: hold, and cut at a time after that (trace clock, ns).
 * Hold gives -EBUSY while an earlier cut has not been reached.
 */
int recorder_hold(struct recorder *r, struct error *err);
void recorder_cut(struct recorder *r, uint64_t ts);

/* The rows before this checkpoint are safe: the spools may forget them. */
void recorder_release(struct recorder *r, const struct checkpoint *checkpoint);

/* How it ended, once the source is at its end: "stopped", "spool full" or "disk full". */
const char *recorder_ended(const struct recorder *r);

/* Say it in other words to those who find the spools. */
void recorder_say_ended(struct recorder *r, const char *how);

/* Rows come out here, from recorder_new on. */
struct source *recorder_source(struct recorder *r);

/* Share of what was taken out of the rings that is decoded, 0 to 1. */
double recorder_progress(const struct recorder *r);

/* Facts, from the start on. */
struct instance *recorder_instance(struct recorder *r);
int recorder_cpus(const struct recorder *r);
const char *const *recorder_skipped(const struct recorder *r, size_t *nr);

/* The names of threads, once the source is at its end. */
struct tasks *recorder_tasks(struct recorder *r);

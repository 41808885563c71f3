/* SPDX-License-Identifier: Apache-2.0 */
/*
 * instance.h - a tracefs instance for this process alone.
 *
 * An instance is a set of per-CPU ring buffers with its own switches, so other tracers on the
 * machine are not disturbed. Its name is pagetape-<pid>-<start time of that pid>. If that process
 * is gone, the instance is left over from a killed recorder, and the next recorder removes it.
 *
 * Open files outlive the mount: if tracefs is unmounted (lazily, as it is busy), a recording
 * continues and ends normally.
 */
#pragma once

#include "error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct instance;

/* One CPU's counters, from per_cpu/cpuN/stats. */
struct ring_stats {
	uint64_t entries;        /* events still in the ring */
	uint64_t overrun;        /* events overwritten before they were read */
	uint64_t commit_overrun; /* events lost to nested writers */
	uint64_t dropped;        /* events refused by a full ring */
	uint64_t read;           /* events read from the ring */
};

/*
 * Mount tracefs if necessary, remove leftovers, and make an instance, switched off: clock mono,
 * oldest events overwritten first, `ring_kb` KiB of ring per CPU (0: chosen from the machine's
 * memory). -EPERM, -EACCES (no right to trace), -ENOENT (no tracefs), -ENOMEM (ring too big).
 */
int instance_new(struct instance **out, size_t ring_kb, struct error *err);

/* The default ring of each CPU: a share of the memory, within bounds. */
size_t instance_default_ring_kb(void);

/* Switch off and remove. All files of its rings must be closed. NULL is fine. */
void instance_free(struct instance *instance);

const char *instance_name(const struct instance *instance);
size_t instance_ring_bytes(const struct instance *instance);   /* per CPU */
size_t instance_subbuf_bytes(const struct instance *instance); /* of one read */

/* Text of a file of an event; NULL if absent. Free it. */
char *instance_event_read(struct instance *instance, const char *system, const char *event,
			  const char *file, size_t *size);

/* Switch one event on, for records that pass `filter` (NULL: all). */
int instance_enable(struct instance *instance, const char *system, const char *event,
		    const char *filter, struct error *err);

/*
 * Set a trigger: `what` (such as "stacktrace") at each hit of the event. It ends with the
 * instance.
 */
int instance_trigger(struct instance *instance, const char *system, const char *event,
		     const char *what, struct error *err);

/* Switch recording on or off; off also removes the probes of all events. */
int instance_switch(struct instance *instance, bool on, struct error *err);

/* A non-blocking descriptor of one CPU's raw sub-buffers, or -errno. */
int instance_open_ring(struct instance *instance, int cpu, struct error *err);

int instance_ring_stats(struct instance *instance, int cpu, struct ring_stats *out,
			struct error *err);

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
#include "ring_stats.h"

#include <stdbool.h>
#include <stddef.h>

struct instance;

struct instance_config {
	size_t ring_kb;    /* of each CPU; 0: chosen from the machine's memory */
	const char *guard; /* program that removes the instance of a killed process; NULL: none */
	int spool; /* directory for what a guard finds in the rings, see guard_start.h; -1 */
};

/* The directory of tracefs, which is mounted if necessary. -ENOENT (no tracefs, no right). */
int instance_tracing_dir(const char **dir, struct error *err);

/*
 * Remove leftovers, and make an instance, switched off: clock mono, oldest events overwritten
 * first. -EPERM, -EACCES (no right to trace), -ENOMEM (ring too big), the errors of
 * instance_tracing_dir and guard_start.
 */
int instance_new(struct instance **out, const struct instance_config *config, struct error *err);

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

/* What another user may have changed since instance_new. */
struct instance_state {
	bool exists, on;
	bool clock;                      /* is still mono */
	size_t ring_bytes, subbuf_bytes; /* as above; ring_bytes is 0 if the CPUs differ */
};

void instance_look(const struct instance *instance, struct instance_state *out);

/* Whether an event is switched on in the instance. */
bool instance_is_enabled(const struct instance *instance, const char *system, const char *event);

int instance_ring_stats(struct instance *instance, int cpu, struct ring_stats *out,
			struct error *err);

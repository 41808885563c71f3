// SPDX-License-Identifier: Apache-2.0
/* record_look.c - the state of a running recording, and who else changed it. */
#include "record_internal.h"

#include <stdio.h>
#include <string.h>

/* The first event that is switched off, as "system:event"; NULL if all are on. */
static const char *event_off(const struct recorder *r)
{
	char system[64], event[64];

	for (size_t i = 0; i < r->nr_events; i++) {
		if (sscanf(r->events[i], "%63[^:]:%63s", system, event) != 2 ||
		    !strcmp(system, "ftrace"))
			continue; /* a trigger's */
		if (!instance_is_enabled(r->instance, system, event))
			return r->events[i];
	}
	return NULL;
}

static enum disturbance find_disturbance(const struct recorder *r, uint64_t read,
					 struct recorder_look *out)
{
	struct instance_state state;
	const char *event;

	instance_look(r->instance, &state);
	if (!state.exists)
		return INSTANCE_REMOVED;
	if (state.subbuf_bytes != instance_subbuf_bytes(r->instance)) {
		snprintf(out->what, sizeof(out->what), "%zu kB", state.subbuf_bytes / 1024);
		return SUBBUF_CHANGED;
	}
	if (!state.clock)
		return CLOCK_CHANGED;
	if (read < r->looked_read)
		return RING_CLEARED;
	event = event_off(r);
	if (event) {
		snprintf(out->what, sizeof(out->what), "%s", event);
		return EVENT_OFF;
	}
	if (!state.on)
		return TRACING_OFF;
	if (state.ring_bytes != instance_ring_bytes(r->instance)) {
		if (state.ring_bytes)
			snprintf(out->what, sizeof(out->what), "%zu kB for each CPU",
				 state.ring_bytes / 1024);
		else
			snprintf(out->what, sizeof(out->what), "a different one for each CPU");
		return RING_RESIZED;
	}
	return UNDISTURBED;
}

void recorder_look(struct recorder *r, struct recorder_look *out)
{
	struct ring_stats stats;
	uint64_t read = 0;

	*out = (struct recorder_look){0};
	for (int i = 0; i < r->unspool.nr_cpus; i++) {
		const struct cursor *c = &r->unspool.cursors[i];
		uint64_t in, decoded;

		if (c->spool) {
			spool_progress(c->spool, &in, &decoded);
			out->waiting += (in - decoded) * spool_slot_bytes(c->spool);
		}
		if (instance_ring_stats(r->instance, c->cpu, &stats, NULL))
			continue;
		read += stats.read;
		out->events += stats.read + stats.entries;
		out->lost += stats.overrun + stats.commit_overrun + stats.dropped;
	}
	out->disturbance = find_disturbance(r, read, out);
	if (atomic_load(&r->switched_off)) /* meanwhile */
		out->disturbance = UNDISTURBED;
	r->looked_read = read;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perfetto_events.h - Perfetto's events, by their numbers in FtraceEvent, as values of columns.
 *
 * The numbers are those of perfetto_trace.proto; collector/tests/test_foreign_perfetto.py compares
 * them with the descriptors of the package perfetto. Events that a trace describes itself (generic
 * events, of both kinds) are known by their names.
 */
#pragma once

#include "shapes.h"
#include "span.h"

struct perfetto_events;

int perfetto_events_new(struct perfetto_events **out, struct shapes *shapes, struct error *err);
void perfetto_events_free(struct perfetto_events *e);

/* A GenericEventDescriptor of a bundle. */
void perfetto_events_learn(struct perfetto_events *e, struct span descriptor);

/*
 * The event in a FtraceEvent into `event`, and its time. `event->of` is NULL for an event without a
 * name. False: damaged.
 */
bool perfetto_events_read(struct perfetto_events *e, struct span message,
			  struct event_values *event, uint64_t *ts);

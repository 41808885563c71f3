/* SPDX-License-Identifier: Apache-2.0 */
/* observer.h - hooks to look at the model during a run. */
#pragma once

#include "model/model.h"

enum { OBSERVER_STOPS = 2 };

struct run_observer {
	void *self;
	/* Rows of `event`, ascending: `before` is called before them, whatever their kind. */
	uint64_t stops[OBSERVER_STOPS];
	/* The model is ready. 0, or -errno to end the run. */
	int (*start)(void *self, const struct model *m, struct error *err);
	/* The state before a row; `request`: the row is an alloc or a free. */
	void (*before)(void *self, const struct model *m, uint64_t at, bool request);
	/* The state after the last row. */
	void (*end)(void *self, const struct model *m);
};
